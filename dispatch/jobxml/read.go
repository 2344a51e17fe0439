package jobxml

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/shardmq/shardmq/config/secret"
)

// maxName is the longest name in AMQP 0-9-1, in octets.
const maxName = 255

// Import is what a job.xml says.
type Import struct {
	Notes []Note // in the order of the lines

	admin   string // host:port
	servers []*server
	conf    conf
	jobs    []*job
}

// server is a queueserver.
type server struct {
	line              int
	name, user, vhost string
	host, port        string
	password          secret.String
	env               string // the variable that the password is to be in
}

// conf is what holds for jobs that do not say otherwise.
type conf struct {
	line                int
	url, host, encoding string
	count, prefetch     int
	timeout             time.Duration
	retry               int
}

// Executors is how many executors all jobs have together.
func (i *Import) Executors() (n int) {
	for _, j := range i.jobs {
		n += j.executors(i.conf)
	}
	return n
}

// Jobs is how many jobs there are.
func (i *Import) Jobs() int { return len(i.jobs) }

// Read reads a job.xml. Whatever is wrong with it comes back as Problems.
func Read(data []byte) (*Import, error) {
	root, problem := parse(data)
	if problem == nil && root.name != "jobs" {
		problem = &Problem{root.line, root.name, "is the outermost element; a job.xml has <jobs>: is it the right file?"}
	}
	if problem != nil {
		return nil, Problems{*problem}
	}
	x := &importer{out: &Import{}, servers: map[string]*server{}, names: map[string]int{}, same: map[string]int{}, envs: map[string]bool{}}
	x.elements(root)
	x.monitor(root)
	x.allServers(root)
	x.allDefaults(root)
	x.allJobs(root)
	if x.problems != nil {
		slices.SortStableFunc(x.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
		return nil, x.problems
	}
	slices.SortStableFunc(x.out.Notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return x.out, nil
}

// importer gathers what the elements say.
type importer struct {
	out      *Import
	problems Problems
	servers  map[string]*server
	names    map[string]int // line of a job, by where its server is and its name
	same     map[string]int // likewise, by what Consumer Dispatcher tells jobs apart by
	envs     map[string]bool
}

func (x *importer) problem(line int, path, format string, args ...any) {
	x.problems = append(x.problems, Problem{line, path, fmt.Sprintf(format, args...)})
}

func (x *importer) note(line int, path, format string, args ...any) {
	x.out.Notes = append(x.out.Notes, Note{line, path, fmt.Sprintf(format, args...)})
}

const ignored = "is not known to Consumer Dispatcher either and is left out"

// elements tells of what nobody reads.
func (x *importer) elements(root *element) {
	for _, c := range root.children {
		switch c.name {
		case "monitor", "servers", "conf", "job":
		default:
			x.note(c.line, c.name, ignored)
		}
	}
	for _, name := range []string{"monitor", "conf"} {
		for _, c := range root.all(name)[min(1, len(root.all(name))):] {
			x.note(c.line, name, "is given again: the first one counts")
		}
	}
}

// attributes returns an element's attributes, and tells of those that nobody reads.
func (x *importer) attributes(e *element, path string, known ...string) map[string]string {
	out := map[string]string{}
	for _, a := range e.attrs {
		if slices.Contains(known, a.name) {
			out[a.name] = a.value
		} else {
			x.note(e.line, path+" "+clip(a.name), ignored)
		}
	}
	return out
}

// monitor is where the admin page is.
func (x *importer) monitor(root *element) {
	all := root.all("monitor")
	if len(all) == 0 {
		x.problem(root.line, "monitor", "is missing; add it as Consumer Dispatcher wants it, e.g. <monitor rHost=\"127.0.0.1\" rPort=\"9991\" httpHost=\"127.0.0.1\" httpPort=\"15673\"/>")
		return
	}
	e := all[0]
	attrs := x.attributes(e, "monitor", "rHost", "rPort", "httpHost", "httpPort")
	host, port := attrs["httpHost"], attrs["httpPort"]
	if host == "" || strings.ContainsAny(host, " \t\r\n/@[]") {
		x.problem(e.line, "monitor httpHost", "is missing or no host; give the address of the admin page, e.g. httpHost=\"127.0.0.1\"")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		x.problem(e.line, "monitor httpPort", "is %q; give the port of the admin page, from 1 to 65535", clip(port))
	}
	x.out.admin = net.JoinHostPort(host, port)
	x.note(e.line, "monitor", "is written as admin.address; there is no JMX: use the page, its API or /metrics there")
}

func (x *importer) allServers(root *element) {
	count := 0
	for _, list := range root.all("servers") {
		for _, c := range list.children {
			if c.name != "queueserver" {
				x.note(c.line, "servers "+c.name, ignored)
				continue
			}
			count++
			x.server(c)
		}
	}
	if count == 0 {
		x.problem(root.line, "servers", "has no queueserver; give at least one, e.g. <servers><queueserver name=\"mail_mq\" host=\"127.0.0.1\" "+
			"port=\"5672\" userName=\"guest\" password=\"guest\" vhost=\"/\"/></servers>")
	}
}

func (x *importer) server(e *element) {
	known := []string{"name", "host", "port", "userName", "password", "vhost"}
	attrs := x.attributes(e, "queueserver", known...)
	path := fmt.Sprintf("queueserver %q", clip(attrs["name"]))
	for _, name := range known {
		switch v := attrs[name]; {
		case v == "":
			x.problem(e.line, path+" "+name, "is missing; all of name, host, port, userName, password and vhost are needed")
		case len(v) > maxName || strings.ContainsFunc(v, unicode.IsControl):
			x.problem(e.line, path+" "+name, "is longer than %d bytes or has a control character in it; correct it", maxName)
		}
	}
	s := &server{line: e.line, name: attrs["name"], user: attrs["userName"], password: secret.String(attrs["password"]), vhost: attrs["vhost"],
		host: attrs["host"], port: attrs["port"]}
	if n, err := strconv.Atoi(s.port); s.port != "" && (err != nil || n < 1 || n > 65535) {
		x.problem(e.line, path+" port", "is %q; give a number from 1 to 65535", clip(s.port))
	} else if u, err := url.Parse(s.url()); s.host != "" && (err != nil || u.Hostname() != s.host || strings.ContainsAny(s.host, " %/@")) {
		x.problem(e.line, path+" host", "is %q; give a host name or an IP address", clip(s.host))
	}
	if strings.TrimSpace(s.name) == "" {
		return // reported
	}
	if first := x.servers[s.name]; first != nil {
		x.problem(e.line, path+" name", "is given twice, first on line %d; give each server a name of its own", first.line)
		return
	}
	s.env = x.variable(s.name)
	x.servers[s.name] = s
	x.out.servers = append(x.out.servers, s)
}

// url is the server's, without user and password.
func (s *server) url() string {
	u := url.URL{Scheme: "amqp", Host: net.JoinHostPort(s.host, s.port), Path: "/" + s.vhost, RawPath: "/" + url.PathEscape(s.vhost)}
	return u.String()
}

// variable makes the name of an environment variable for a server's password.
func (x *importer) variable(name string) string {
	base := strings.ToUpper(strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, name)) + "_PASSWORD"
	if base[0] >= '0' && base[0] <= '9' {
		base = "MQ_" + base
	}
	out := base
	for i := 2; x.envs[out]; i++ {
		out = base + "_" + strconv.Itoa(i)
	}
	x.envs[out] = true
	return out
}

// allDefaults reads conf.
func (x *importer) allDefaults(root *element) {
	all := root.all("conf")
	if len(all) == 0 {
		x.problem(root.line, "conf", "is missing; add it with request-pre, request-count, request-timeout, prefetch-count and retry")
		return
	}
	e := all[0]
	values, lines := map[string]string{}, map[string]int{}
	for _, c := range e.children {
		switch c.name {
		case "request-pre", "request-host", "request-count", "request-timeout", "prefetch-count", "retry", "encoding":
		default:
			x.note(c.line, "conf "+c.name, ignored)
			continue
		}
		if first, twice := lines[c.name]; twice {
			x.problem(c.line, "conf "+c.name, "is given twice, first on line %d; keep one of the two", first)
		}
		values[c.name], lines[c.name] = strings.TrimSpace(string(c.text)), c.line
	}
	for _, name := range []string{"request-pre", "request-count", "request-timeout", "prefetch-count", "retry"} {
		if values[name] == "" {
			x.problem(cmp.Or(lines[name], e.line), "conf "+name, "is missing or empty; Consumer Dispatcher needs it, so add <%s>%s</%s>", name,
				map[string]string{"request-pre": "http://...", "request-count": "2", "request-timeout": "30000", "prefetch-count": "0", "retry": "1"}[name], name)
		}
	}
	c := &x.out.conf
	*c = conf{line: e.line, url: values["request-pre"], host: values["request-host"], encoding: cmp.Or(values["encoding"], "utf-8")}
	number := func(name string, least, most int) int {
		if values[name] == "" {
			return 0 // reported
		}
		return x.number(lines[name], "conf "+name, values[name], least, most)
	}
	c.count = number("request-count", 0, maxExecutors)
	c.timeout = x.timeout(lines["request-timeout"], "conf request-timeout", number("request-timeout", 0, maxNumber))
	c.prefetch = number("prefetch-count", 0, 65535)
	c.retry = number("retry", -maxNumber, maxNumber)
	x.endpoint(map[string]place{
		"url": {lines["request-pre"], "conf request-pre"}, "host": {lines["request-host"], "conf request-host"}, "encoding": {lines["encoding"], "conf encoding"},
	}, c.url, c.host, c.encoding)
	x.defects(lines)
}

// defects tells what of Consumer Dispatcher's behaviour with these defaults is not repeated.
func (x *importer) defects(lines map[string]int) {
	c := &x.out.conf
	x.note(lines["request-pre"], "conf request-pre", "redirects are answers and not followed: Consumer Dispatcher follows 303 and takes what it finds there for the answer")
	x.note(lines["request-timeout"], "conf request-timeout", "counts: Consumer Dispatcher waits for an answer for as long as it takes")
	if c.timeout == 0 {
		x.note(lines["request-timeout"], "conf request-timeout", "is 0, which is no time limit; written as %s", defaultTimeout)
	}
	if c.prefetch == 0 {
		x.note(lines["prefetch-count"], "conf prefetch-count", "is 0, with which one executor takes all jobs to itself; each gets one at a time instead")
	}
	x.note(lines["retry"], "conf retry", "jobs that are tried again are so without end, as ever, but after a delay that grows from 1s to 5m: Consumer Dispatcher sends them "+
		"again at once, hundreds of times a second. To have an end, set retry.max and retry.then")
	if c.count == 0 {
		x.note(lines["request-count"], "conf request-count", "is 0: jobs without a count of their own have no executor until they are given one")
	}
	x.note(cmp.Or(lines["encoding"], c.line), "conf encoding", "octets that are no text in a job's encoding are passed on as they are: Consumer Dispatcher replaces them")
}
