// Package rig starts the real programs that the integration tests, the demo and the benchmark run against: private
// RabbitMQ nodes and the shardmq binary.
//
// Everything listens on loopback, on ports that were free a moment ago, and keeps its state in one temporary folder
// per process, the workspace. Processes are killed by the kernel when the process that started them dies, so that an
// aborted test run leaves nothing running; its workspace is swept away by the next run. [Cleanup] removes the
// workspace at once and belongs at the end of main or TestMain.
//
// Environment:
//
//	AMQP_URL                  use this broker instead of starting one (see [Broker])
//	SHARDMQ_RABBITMQ_HOME     an unpacked RabbitMQ (the folder with sbin and plugins), instead of the installed one
//	SHARDMQ_RABBITMQ_VERSION  a release that integration/scripts/install-rabbitmq.sh provides, for all nodes for which
//	                          no other is asked
//	SHARDMQ_BINARY            a shardmq binary to use instead of building one
package rig
