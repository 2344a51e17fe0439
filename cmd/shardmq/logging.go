package main

import (
	"cmp"
	"fmt"
	standard "log"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/shardmq/shardmq/config"
)

// logFlags are the flags about the log that every command has which runs on.
type logFlags struct {
	LogLevel  string `placeholder:"LEVEL" help:"debug, info, warn or error. (default: info)"`
	LogFormat string `placeholder:"FORMAT" help:"console or json. (default: console)"`
}

// logger makes the log of the run. A flag wins over the file, and says so when
// it changes what the file asks for.
func (c *logFlags) logger(a *app, cfg *config.Config) (*zap.Logger, error) {
	var bad []string
	for _, f := range []struct {
		name, value string
		words       []string
	}{{"--log-level", c.LogLevel, config.LogLevels}, {"--log-format", c.LogFormat, config.LogFormats}} {
		if f.value != "" && !slices.Contains(f.words, f.value) {
			bad = append(bad, fmt.Sprintf("%s: is %q; give one of %s", f.name, f.value, strings.Join(f.words, ", ")))
		}
	}
	if bad != nil {
		return nil, usagef("%s", strings.Join(bad, "\n"))
	}
	level := cmp.Or(c.LogLevel, cfg.Log.Level, config.DefaultLogLevel)
	format := cmp.Or(c.LogFormat, cfg.Log.Format, config.DefaultLogFormat)
	zl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	log := zap.New(zapcore.NewCore(encoder(format), zapcore.Lock(zapcore.AddSync(a.stderr)), zl))
	if cfg.Log.Level != "" && level != cfg.Log.Level {
		log.Info("flag overrides configuration file", zap.String("flag", "--log-level"), zap.String("file", cfg.Log.Level), zap.String("used", level))
	}
	if cfg.Log.Format != "" && format != cfg.Log.Format {
		log.Info("flag overrides configuration file", zap.String("flag", "--log-format"), zap.String("file", cfg.Log.Format), zap.String("used", format))
	}
	standard.SetFlags(0)
	standard.SetOutput(standardLog{log})
	return log, nil
}

// standardLog writes what libraries log by the package log.
type standardLog struct{ log *zap.Logger }

// Write logs a line. net/http quotes what an endpoint sends unasked, which is not for the log: it may belong to an answer.
func (s standardLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "Unsolicited response") {
		text = "an endpoint sent something behind its answer; that connection is closed"
	}
	s.log.Warn(text)
	return len(line), nil
}

func encoder(format string) zapcore.Encoder {
	c := zapcore.EncoderConfig{
		TimeKey:        "time",
		LevelKey:       "level",
		NameKey:        "logger",
		MessageKey:     "msg",
		StacktraceKey:  "stack",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeTime: func(t time.Time, e zapcore.PrimitiveArrayEncoder) {
			e.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
		},
	}
	if format == "json" {
		return zapcore.NewJSONEncoder(c)
	}
	c.ConsoleSeparator = " "
	return zapcore.NewConsoleEncoder(c)
}
