package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardmq/shardmq/admin"
)

const (
	tokenVariable = "SHARDMQ_ADMIN_TOKEN"
	// answerWithin is more than a process takes for an answer.
	answerWithin = 40 * time.Second
	longestReply = 256 << 20
	longestToken = 4 << 10
)

// adminFlags say which process a command asks, and where the token is.
type adminFlags struct {
	Admin     string `default:"http://127.0.0.1:15673" placeholder:"URL" help:"Where the process has its admin.address. (default: ${default})"`
	TokenFile string `placeholder:"FILE" help:"File with the process' admin.token. (default: the environment variable SHARDMQ_ADMIN_TOKEN)"`
}

// base reads --admin.
func (f *adminFlags) base() (*url.URL, error) {
	text := f.Admin
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, usagef("--admin: is no http:// or https:// URL; give where the process has its admin.address, e.g. http://127.0.0.1:15673")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, usagef("--admin: has more than an address and a path in it; give these alone, e.g. http://127.0.0.1:15673")
	}
	return u, nil
}

// token reads the token from where it is.
func (f *adminFlags) token() (string, error) {
	where, text := tokenVariable, os.Getenv(tokenVariable)
	if f.TokenFile != "" {
		where = "--token-file: " + f.TokenFile
		file, err := os.Open(f.TokenFile)
		if err != nil {
			return "", usagef("%s: cannot be read (%w); check its path and permissions", where, cause(err))
		}
		defer file.Close()
		content, err := io.ReadAll(io.LimitReader(file, longestToken+1))
		if err != nil {
			return "", usagef("%s: cannot be read (%w); check its path and permissions", where, cause(err))
		}
		text = strings.TrimSpace(string(content))
	}
	switch {
	case text == "" && f.TokenFile == "":
		return "", usagef("this needs the process' admin.token; give --token-file, or set %s", tokenVariable)
	case text == "":
		return "", usagef("%s: is empty; write the process' admin.token into it", where)
	case len(text) > longestToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usagef("%s: is no token; give the process' admin.token alone", where)
	}
	return text, nil
}

// cause leaves out the path, which is said already.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// client asks a process.
type client struct {
	base  *url.URL
	token string // "" = for looking only
	http  *http.Client
}

// client returns one that has the token if it is needed.
func (f *adminFlags) client(needsToken bool) (*client, error) {
	base, err := f.base()
	if err != nil {
		return nil, err
	}
	c := &client{base: base, http: &http.Client{Timeout: answerWithin, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for nobody else
	}}}
	if needsToken {
		c.token, err = f.token()
	}
	return c, err
}

// jobPath is where a job is, behind /api/v1/.
func jobPath(job string, more ...string) string {
	return strings.Join(append([]string{"jobs", url.PathEscape(job)}, more...), "/")
}

// get asks for what is at a path; post asks for something to be done.
func (c *client) get(ctx context.Context, path string, answer any) error {
	return c.ask(ctx, http.MethodGet, path, nil, answer)
}

func (c *client) post(ctx context.Context, path string, ask, answer any) error {
	return c.ask(ctx, http.MethodPost, path, ask, answer)
}

func (c *client) ask(ctx context.Context, method, path string, ask, answer any) error {
	var body io.Reader
	if ask != nil {
		text, err := json.Marshal(ask)
		if err != nil {
			return fmt.Errorf("ask the process: %w", err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base.String(), "/")+"/api/v1/"+path, body)
	if err != nil {
		return fmt.Errorf("ask the process: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, longestReply))
	if err != nil {
		return c.unanswered(ctx, err)
	}
	return c.read(resp, content, answer)
}

// unanswered says why there is no answer.
func (c *client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the URL, which is said already
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		err = fmt.Errorf("not within %s", answerWithin)
	}
	return fmt.Errorf("nothing answers at %s: %w; is shardmq running with this as its admin.address? --admin names another", c.base, err)
}

// read takes an answer apart.
func (c *client) read(resp *http.Response, content []byte, answer any) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusOK && kind == "application/json":
		if err := json.Unmarshal(content, answer); err == nil {
			return nil
		}
	case kind == "application/problem+json":
		problem := &admin.Problem{}
		if err := json.Unmarshal(content, problem); err == nil && problem.Detail != "" {
			if problem.Status == http.StatusUnauthorized {
				problem.Detail = "the process has another admin.token; check --token-file or " + tokenVariable
			}
			return problem
		}
	}
	return fmt.Errorf("what answers at %s serves no jobs (status %d); is that a shardmq with the section dispatch? --admin names another", c.base, resp.StatusCode)
}

// printed is a name as a terminal takes it: names and reasons come from anywhere.
func printed(text string) string {
	if quoted := strconv.Quote(text); quoted[1:len(quoted)-1] != text {
		return quoted
	}
	return text
}
