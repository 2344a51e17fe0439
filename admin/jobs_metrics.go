package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// JobMetrics exports how dispatched jobs stand. Their number is that of the configuration.
type JobMetrics struct{ jobs Jobs }

// NewJobMetrics returns the collector of jobs' metrics.
func NewJobMetrics(jobs Jobs) *JobMetrics { return &JobMetrics{jobs: jobs} }

var (
	jobLabels = []string{"server", "job"}

	jobConnected = desc("dispatch_connected", "Whether the job's connection to its server stands (1) or not (0).", jobLabels...)
	jobExecutors = desc("dispatch_executors", "Executors of the job: its consumers at the broker.", jobLabels...)
	jobWanted    = desc("dispatch_executors_wanted", "Executors that the job should have while it is not paused.", jobLabels...)
	jobInFlight  = desc("dispatch_requests_in_flight", "Requests of the job that have not been answered yet.", jobLabels...)
	jobBacklog   = desc("dispatch_backlog_messages", "Ready messages in the job's queue, when the dispatcher looked last.", jobLabels...)
	jobStopped   = desc("dispatch_stopped", "Whether jobs are not fetched, by the reason: paused, held (Retry-After) or breaker.", append(jobLabels, "reason")...)
	jobSettled   = desc("dispatch_jobs_total", "Jobs that are settled, by the result: done, dropped or dead.", append(jobLabels, "result")...)
	jobRetried   = desc("dispatch_retries_total", "Attempts after which a job was put off.", jobLabels...)
	jobRepeated  = desc("dispatch_repeated_total", "Jobs that come again because the connection broke before they were acknowledged.", jobLabels...)
	jobAttempts  = desc("dispatch_attempts_total", "Attempts, by how the endpoint answered.", append(jobLabels, "class")...)
	jobSeconds   = desc("dispatch_attempt_seconds", "How long attempts took.", jobLabels...)
)

var allOfJobs = []metric{
	jobConnected, jobExecutors, jobWanted, jobInFlight, jobBacklog, jobStopped, jobSettled, jobRetried, jobRepeated, jobAttempts, jobSeconds,
}

// Describe implements prometheus.Collector.
func (m *JobMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range allOfJobs {
		out <- d.Desc
	}
}

// Collect implements prometheus.Collector.
func (m *JobMetrics) Collect(out chan<- prometheus.Metric) {
	e := exporter{out: out}
	for _, st := range m.jobs.Jobs() {
		e.job(&st)
	}
}

func (e *exporter) job(st *dispatch.Status) {
	labels := []string{st.Server, st.Name}
	with := func(v string) []string { return []string{st.Server, st.Name, v} }
	e.gauge(jobConnected, truth(st.Connected), labels...)
	e.gauge(jobExecutors, float64(st.Executors), labels...)
	e.gauge(jobWanted, float64(st.Wanted), labels...)
	e.gauge(jobInFlight, float64(st.InFlight), labels...)
	if st.Backlog >= 0 {
		e.gauge(jobBacklog, float64(st.Backlog), labels...)
	}
	e.gauge(jobStopped, truth(st.Paused), with("paused")...)
	e.gauge(jobStopped, truth(!st.Held.IsZero()), with("held")...)
	e.gauge(jobStopped, truth(st.Breaker == "open"), with("breaker")...)
	e.counter(jobSettled, float64(st.Done), with("done")...)
	e.counter(jobSettled, float64(st.Dropped), with("dropped")...)
	e.counter(jobSettled, float64(st.Dead), with("dead")...)
	e.counter(jobRetried, float64(st.Retried), labels...)
	e.counter(jobRepeated, float64(st.Repeated), labels...)
	for _, class := range target.Classes() {
		e.counter(jobAttempts, float64(st.Classes[class]), with(string(class))...)
	}
	buckets := make(map[float64]uint64, len(st.Took.Below))
	for i, n := range st.Took.Below {
		buckets[dispatch.TookBounds[i].Seconds()] = n
	}
	e.out <- prometheus.MustNewConstHistogram(jobSeconds.Desc, st.Took.Count, st.Took.Sum.Seconds(), buckets, printable(labels)...)
}
