package main

import (
	"context"
	"crypto/tls"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// dispatchRunCmd is "shardmq dispatch run".
type dispatchRunCmd struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"The YAML file with the section dispatch. SIGHUP reads its jobs again."`
	logFlags
}

// Run dispatches the file's jobs until ctx is cancelled and what is in flight then is done.
func (c *dispatchRunCmd) Run(ctx context.Context, a *app) error {
	cfg, err := loadJobs(c.Config)
	if err != nil {
		return err
	}
	log, err := c.logger(a, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // a terminal cannot be synced: no news
	warn(log, cfg)
	log.Info("starting", zap.String("version", version()), zap.Int("jobs", len(cfg.Dispatch.Jobs)))
	loaded, err := loadCertificates(cfg)
	if err != nil {
		return usageError{err}
	}
	d := newDispatcher(ctx, cfg.Dispatch, log)
	stopAdmin, err := serveJobs(ctx, cfg, d, log)
	if err != nil {
		return err
	}
	defer stopAdmin() // jobs can be watched while they end
	if err := d.Apply(cfg.Dispatch.Jobs); err != nil {
		return usageError{err}
	}
	r := newReloader(c.Config, cfg, live(loaded), log)
	r.jobs, r.check = d, func(cfg *config.Config) error { return checkJobs(c.Config, cfg) }
	stop := r.start(ctx)
	<-ctx.Done()
	stop()
	log.Info("stopping: requests in flight are finished", zap.Duration("within", cfg.Dispatch.Drain))
	d.Wait()
	log.Info("stopped")
	return nil
}

// newDispatcher returns a dispatcher whose jobs ask HTTP endpoints.
func newDispatcher(ctx context.Context, s *dispatch.Settings, log *zap.Logger) *dispatch.Dispatcher {
	return dispatch.New(ctx, dispatch.Options{Drain: s.Drain, Log: log, TLS: serverTLS, Endpoint: func(j *dispatch.Job) (dispatch.Endpoint, error) {
		o := j.Target
		if o.Connections == 0 {
			o.Connections = dispatch.MaxExecutors // what there is of executors bounds them
		}
		return target.New(o, j.Answers)
	}})
}

// serverTLS is how a dispatcher connects to a server with amqps://.
func serverTLS(s dispatch.Server) (*tls.Config, error) {
	if s.CA == "" {
		return nil, nil //nolint:nilnil // nil is whom the system trusts
	}
	loaded, problems := certs.LoadClient(certs.ClientOptions{CA: s.CA, MinVersion: tls.VersionTLS12})
	if loaded == nil {
		return nil, problems
	}
	uri, err := amqp.ParseURI(string(s.URL))
	if err != nil {
		return nil, errors.New("its url cannot be read") // and may have a password in it
	}
	return loaded.Client(uri.Host), nil
}
