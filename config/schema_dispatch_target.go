package config

import (
	"errors"
	"fmt"

	"github.com/shardmq/shardmq/dispatch/target"
)

// endpoint is where a job's requests go.
func (d *dispatching) endpoint(j *job) object {
	o := &j.Target
	return object{
		private: true,
		fields: []field{
			{"url", "required for jobs", scalar{kind: "text", want: "the endpoint's URL, e.g. http://app/mail", secret: true, set: func(v string) error {
				o.URL = v
				return nil
			}}},
			{"host", "that of the url", filled("a host name, e.g. mail.example", &o.Host)},
			{"method", "POST", oneOf(func(v string) { o.Method = v }, "POST", "PUT", "PATCH", "DELETE")},
			{"headers", "none", httpHeaders(&o.Headers)},
			{"auth", "", d.auth(&o.Auth)},
			{"tls", "", d.endpointTLS(&o.TLS)},
		},
	}
}

func (d *dispatching) auth(dst *target.Auth) object {
	var user login
	var token Secret
	var file string
	return object{
		private: true,
		fields: []field{
			{"username", "", filled("a user name", &user.name)},
			{"password", "", secret("a password, best as \"${APP_PASSWORD}\"", &user.password)},
			{"password-file", "", pemFile("the path of a file with the password", &user.file)},
			{"bearer", "", scalar{kind: "text", want: "a token, best as \"${APP_TOKEN}\"", secret: true, set: func(v string) error {
				if token = Secret(v); v == "" {
					return errors.New("is empty; give a token")
				}
				return nil
			}}},
			{"bearer-file", "", pemFile("the path of a file with the token", &file)},
		},
		done: func(p *parser, at place) {
			basic, bearer := user.read(d, p, at), p.given(at, "bearer") || p.given(at, "bearer-file")
			if basic == bearer {
				p.fault(at, "needs either a user or a token; give username and password, or bearer")
			}
			if p.given(at, "bearer") && p.given(at, "bearer-file") {
				p.faultAt(at.key("bearer-file"), "is given beside bearer; keep one of the two")
			} else if file != "" {
				token = d.secretFile(p, at.key("bearer-file"), &file)
			}
			*dst = target.Auth{Username: user.name, Password: user.password, Bearer: token}
		},
	}
}

// endpointTLS is how endpoints with https:// are reached.
func (d *dispatching) endpointTLS(dst *target.TLS) object {
	o := &target.TLS{}
	shared := clientTLS(o, field{"server-name", "the host of the url", text("a host name, as it is in the endpoint's certificate", func(v string) error {
		o.ServerName = v
		return CheckServerName(v)
	})},
		"the endpoint's address is believed, and is told jobs and passwords", d.file)
	return object{fields: shared.fields, done: func(p *parser, at place) {
		shared.done(p, at)
		*dst = *o // as a whole: nothing of the defaults' is left
	}}
}

func request(j *job) object {
	o := &j.Target
	return object{
		fields: []field{
			{"mode", string(target.Raw), oneOf(func(v string) { o.Mode = target.Mode(v) }, string(target.Raw), string(target.Form),
				string(target.CloudEvent), string(target.CloudStructured), string(target.BatchMode))},
			{"encoding", "utf-8", filled("a character set, e.g. iso-8859-1", &o.Encoding)},
			{"properties", "none", properties(&o.Properties)},
			{"marks", "usual", oneOf(func(v string) { o.Marks = map[string]target.Marks{"always": target.Always, "never": target.Never}[v] },
				"usual", "always", "never")},
			{"event", "", event(&o.Event)},
			{"batch", "", object{fields: []field{
				{"size", fmt.Sprint(target.DefaultBatchSize), whole(2, target.MaxBatch, &j.size)},
				{"wait", target.DefaultBatchWait.String(), durationBetween(0, target.MaxBatchWait, &o.Batch.Wait)},
			}}},
		},
	}
}

// event is what CloudEvents say that messages do not.
func event(dst *target.Event) object {
	return object{fields: []field{
		{"source", "/queues/ and the queue's name", filled("a URI reference, e.g. /shop/orders", &dst.Source)},
		{"type", "shardmq.job", filled("a type of events, e.g. com.example.order", &dst.Type)},
	}}
}

// properties are names of AMQP headers.
func properties(dst *[]string) list {
	// What the defaults list is replaced.
	return list{example: "[tenant]", begin: func() { *dst = nil }, item: func() shape {
		return text("an AMQP header's name, or \"*\" for all", func(v string) error {
			*dst = append(*dst, v)
			return checkName(v, maxName)
		})
	}}
}

// signing has requests signed.
func (d *dispatching) signing(j *job) object {
	var files []string
	var all []Secret
	return object{
		private: true,
		fields: []field{
			{"secrets", "none", list{example: `["${SIGNING_SECRET}"]`, private: true, item: func() shape {
				all = append(all, "")
				return secret(`"whsec_" and base64, best as "${SIGNING_SECRET}"`, &all[len(all)-1])
			}}},
			{"secret-files", "none", list{example: "[signing.secret]", item: func() shape {
				files = append(files, "")
				return pemFile("the path of a file with the secret", &files[len(files)-1])
			}}},
		},
		done: func(p *parser, at place) {
			j.signs = len(all)
			for i := range files {
				all = append(all, d.secretFile(p, fmt.Sprintf("%s[%d]", at.key("secret-files"), i), &files[i]))
			}
			if len(all) == 0 {
				p.fault(at, "names nothing to sign with; give a list of them, or leave sign out")
			}
			j.Target.SigningSecrets = all
		},
	}
}
