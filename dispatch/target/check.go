package target

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/config/certs"
)

// Problem is one thing that is wrong with Options or Rules.
type Problem struct {
	Key  string // where: url, headers.NAME, tls.cert, ack-when.statuses[0] ...
	Text string // what is wrong; what to do. It holds no secret
}

// Problems is everything that is wrong.
type Problems []Problem

// Error returns them, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Key + ": " + p.Text
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) addf(key, format string, args ...any) {
	*ps = append(*ps, Problem{key, fmt.Sprintf(format, args...)})
}

// Check returns what is wrong, the files of TLS included; nil = New takes it.
func Check(o Options, r Rules) Problems {
	var ps Problems
	u := ps.url(o.URL)
	ps.auth(o.Auth, u)
	ps.request(o)
	ps.headers(o)
	ps.mode(o)
	ps.secrets(o)
	ps.tls(o.TLS, u)
	ps.match("ack-when", r.AckWhen)
	ps.match("drop-when", r.DropWhen)
	ps.match("dead-letter-when", r.DeadLetterWhen)
	return ps
}

// MaskURL is a URL as it may be shown: without the password, and without anything if it is none.
func MaskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(a URL that cannot be read)"
	}
	return u.Redacted()
}

// url returns nil if it is none.
func (ps *Problems) url(text string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case text == "":
		ps.addf("url", "is missing; give the endpoint's, such as http://127.0.0.1:8080/jobs")
	case err != nil:
		ps.addf("url", "cannot be read; check it for spaces, for %% signs that are not followed by two hexadecimal digits, and the port")
	case u.Scheme != "http" && u.Scheme != "https":
		ps.addf("url", "%s begins with neither http:// nor https://; give the whole URL", MaskURL(text))
	case u.Hostname() == "":
		ps.addf("url", "%s names no host; write http://HOST:PORT/PATH", MaskURL(text))
	case u.Fragment != "":
		ps.addf("url", "%s has a #fragment, which is never sent; leave it out, or write # as %%23", MaskURL(text))
	default:
		return u
	}
	return nil
}

func (ps *Problems) auth(a Auth, u *url.URL) {
	named := a.Username != "" || a.Password != ""
	if named && a.Bearer != "" {
		ps.addf("auth", "has a user and a token; leave one of the two out")
	}
	if u != nil && u.User != nil && (named || a.Bearer != "") {
		ps.addf("auth", "is given, and a user in the url as well; leave one of the two out")
	}
	if strings.Contains(a.Username, ":") {
		ps.addf("auth.username", "has a colon, behind which a server would take the rest for the password; give the user alone")
	}
	if !fieldText(string(a.Bearer)) || strings.ContainsAny(string(a.Bearer), " \t") {
		ps.addf("auth.bearer", "has spaces or characters that no header may have; is there a line end or a word Bearer too much?")
	}
}

var methods = []string{"POST", "PUT", "PATCH", "DELETE"}

func (ps *Problems) request(o Options) {
	if o.Host != "" && (!fieldText(o.Host) || strings.ContainsAny(o.Host, " /@?#")) {
		ps.addf("host", "%q is no host; give a name, with a port if need be", o.Host)
	}
	if o.Method != "" && !slices.Contains(methods, o.Method) {
		ps.addf("method", "%q is not possible; give one of %s", o.Method, strings.Join(methods, ", "))
	}
	if o.Timeout <= 0 {
		ps.addf("timeout", "is %s; give how long an attempt may take, such as 30s", o.Timeout)
	}
	if o.Connections < 0 {
		ps.addf("connections", "is %d; give how many there may be, or 0", o.Connections)
	}
}

func (ps *Problems) headers(o Options) {
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		key := "headers." + name
		switch instead, taken := reserved(name); {
		case !token(name):
			ps.addf(key, "is no name of a header; letters, digits and - are")
		case taken:
			ps.addf(key, "is set by shardmq; %s", instead)
		case strings.EqualFold(name, "Authorization") && (o.Auth != Auth{} || strings.Contains(o.URL, "@")):
			ps.addf(key, "is given, and auth as well; leave one of the two out")
		case !fieldText(o.Headers[name]):
			ps.addf(key, "has a line end or another character that no header may have; take it out")
		}
	}
	for i, name := range o.Properties {
		key := fmt.Sprintf("properties[%d]", i)
		if name == "*" || o.Mode == BatchMode {
			continue
		}
		if instead, taken := reserved(name); taken {
			ps.addf(key, "%q cannot be passed on: shardmq sets a header of this name; %s", name, instead)
		} else if !token(name) {
			ps.addf(key, "%q is no name of an HTTP header; give \"*\", which passes on every header as X-AMQP-Header-NAME", name)
		} else if given(o.Headers, name) {
			ps.addf(key, "%q is in headers as well; leave it out in one of them", name)
		}
	}
}

func (ps *Problems) mode(o Options) {
	switch o.Mode {
	case "", Raw, Form, CloudEvent, CloudStructured:
	case BatchMode:
		if o.Batch.Size < 1 || o.Batch.Size > MaxBatch {
			ps.addf("batch.size", "is %d; give 1 to %d jobs", o.Batch.Size, MaxBatch)
		}
		if o.Batch.Wait < 0 {
			ps.addf("batch.wait", "is %s; give how long a job may wait for others, such as 100ms", o.Batch.Wait)
		}
	default:
		ps.addf("mode", "%q is unknown; give one of %s, %s, %s, %s, %s", o.Mode, Form, Raw, CloudEvent, CloudStructured, BatchMode)
	}
	if _, err := newCharset(o.Encoding); err != nil {
		ps.addf("encoding", "%q %s", o.Encoding, err)
	}
	if !slices.Contains([]Marks{Usual, Always, Never}, o.Marks) {
		ps.addf("marks", "%q is unknown; give %s, %s, or nothing", o.Marks, Always, Never)
	}
	if _, err := url.Parse(o.Event.Source); err != nil || clean(o.Event.Source) != o.Event.Source {
		ps.addf("event.source", "%q is no URI reference; give one, such as /orders", o.Event.Source)
	}
	if clean(o.Event.Type) != o.Event.Type {
		ps.addf("event.type", "%q has space around it or characters that are no text; take them out", o.Event.Type)
	}
}

func (ps *Problems) secrets(o Options) {
	for i, s := range o.SigningSecrets {
		key := fmt.Sprintf("signing-secrets[%d]", i)
		text, prefixed := strings.CutPrefix(string(s), secretPrefix)
		octets, err := base64.StdEncoding.DecodeString(text)
		switch {
		case !prefixed:
			ps.addf(key, "does not begin with %s; make one: echo %s$(head -c 32 /dev/urandom | base64)", secretPrefix, secretPrefix)
		case err != nil:
			ps.addf(key, "is not %s and base64; is it whole, with the = at its end?", secretPrefix)
		case len(octets) < 24 || len(octets) > 64:
			ps.addf(key, "is of %d octets; Standard Webhooks wants 24 to 64: make one: echo %s$(head -c 32 /dev/urandom | base64)", len(octets), secretPrefix)
		}
	}
}

func (ps *Problems) tls(o TLS, u *url.URL) {
	if u != nil && u.Scheme == "http" { // it has no effect
		return
	}
	if (o.Cert == "") != (o.Key == "") {
		ps.addf("tls", "has only one of cert and key; give both, or neither to show no certificate")
		return
	}
	_, found := certs.LoadClient(o)
	for _, p := range found {
		if !p.Warning {
			ps.addf("tls."+p.Key, "%s", p.Text)
		}
	}
}

func (ps *Problems) match(key string, m Match) {
	for i, s := range m.Statuses {
		if s.From < 100 || s.To > 599 || s.From > s.To {
			ps.addf(fmt.Sprintf("%s.statuses[%d]", key, i), "%d to %d is no range of statuses; give a smaller one and a larger one, from 100 to 599", s.From, s.To)
		}
	}
	if m.Body != "" && strings.TrimSpace(m.Body) == "" {
		ps.addf(key+".body", "is space, which is not looked at in bodies; give the text that the body has to be")
	}
	if len(m.Body) > maxLooked {
		ps.addf(key+".body", "is of %d octets, but only the first %d of an answer are looked at; give a shorter one", len(m.Body), maxLooked)
	}
	if len(m.Contains) > maxLooked {
		ps.addf(key+".contains", "is of %d octets, but only the first %d of an answer are looked at; give a shorter one", len(m.Contains), maxLooked)
	}
}
