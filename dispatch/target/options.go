package target

import (
	"time"

	"github.com/shardmq/shardmq/config/secret"
)

// Options is an endpoint and how it is asked.
type Options struct {
	URL     string // http:// or https://
	Host    string // the Host header; "" = that of URL
	Method  string // "" = POST
	Headers map[string]string
	Auth    Auth
	TLS     TLS
	Timeout time.Duration // from the first octet sent to the last one read
	Mode    Mode
	// Encoding is the character set of bodies in mode Form, by its IANA name; "" = utf-8.
	Encoding string
	// Properties are the AMQP headers that mode Raw passes on, by name; "*" is all that are text or numbers.
	Properties []string
	Batch      Batch // of mode BatchMode
	// SigningSecrets sign requests as Standard Webhooks has it, each with a signature of its own; none: unsigned.
	// Each is "whsec_" and base64.
	SigningSecrets []secret.String
	// Connections bounds the connections to the endpoint, idle ones included. The pool sets it to the executors there can be.
	Connections int
}

// Mode is the form of a request.
type Mode string

// The forms of a request.
const (
	Form            Mode = "form"                   // queueName and bodyData, as of Consumer Dispatcher
	Raw             Mode = "raw"                    // the body as it is
	CloudEvent      Mode = "cloudevents"            // binary content mode
	CloudStructured Mode = "cloudevents-structured" // structured content mode, JSON
	BatchMode       Mode = "batch"                  // a JSON array of several jobs
)

// Batch bounds what is put into one request.
type Batch struct {
	Size int
	Wait time.Duration // the first job of a batch waits for others no longer
}

// Auth is what a request is authorised with: nothing, a user and password, or a token.
type Auth struct {
	Username         string
	Password, Bearer secret.String
}

// TLS is how an endpoint with https:// is verified and what it is shown. Paths are of PEM files; "" = whom the system
// trusts, and no certificate.
type TLS struct{ CA, Cert, Key string }
