// Package dispatch takes jobs from queues and hands each to an HTTP endpoint: what the endpoint answers decides whether
// the job is done, is tried again later, or has failed.
//
// A job's way, in the order of the files:
//
//   - session.go, steer.go: an executor is one consumer of the job's queue.
//   - line.go: what all executors of a job receive waits in one line, so that none waits behind another's slow job.
//     sequence.go lines it up before, where there is an order to keep.
//   - work.go: a worker takes one delivery, asks the endpoint (package target), and gets a verdict.
//   - settle.go: done jobs are acknowledged. A job to be tried again is published into a retry queue, whose TTL is the
//     delay, and acknowledged once that is confirmed; so nothing is lost by a crash in between, which at worst repeats
//     a job. A retry queue's messages come back through the job's due queue, which the workers are fed from as well:
//     a retry does not wait behind the backlog.
//   - topology.go: the queues this takes.
//
// A Pool runs one job; a Dispatcher all of a configuration.
package dispatch
