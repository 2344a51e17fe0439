// Package target asks HTTP endpoints to do jobs: it makes a request of a job, sends it, and judges the answer. It knows
// nothing of brokers.
package target
