package target

import (
	"strconv"
	"strings"
	"time"
)

// codings are the content encodings that HTTP knows. Others, such as the utf-8 of some clients, would have servers
// refuse the request.
var codings = []string{"gzip", "x-gzip", "compress", "x-compress", "deflate", "br", "zstd", "identity"}

// content sets what the body is.
func content(h *headers, m *Message) {
	h.setText("Content-Type", m.ContentType)
	h.set("Content-Encoding", coding(m))
}

// coding is the message's content encoding if HTTP knows it.
func coding(m *Message) string {
	for _, c := range codings {
		if strings.EqualFold(c, m.ContentEncoding) {
			return c
		}
	}
	return ""
}

// properties sets headers of a message's properties: of mode Raw.
func properties(h *headers, m *Message) {
	if coding(m) == "" {
		h.setText(propertyPrefix+"Content-Encoding", m.ContentEncoding)
	}
	h.setText(propertyPrefix+"Queue", m.Queue)
	h.setText(propertyPrefix+"Exchange", m.Exchange)
	h.setText(propertyPrefix+"Routing-Key", m.RoutingKey)
	h.setText(propertyPrefix+"Message-Id", m.MessageID)
	h.setText(propertyPrefix+"Correlation-Id", m.CorrelationID)
	h.setText(propertyPrefix+"Reply-To", m.ReplyTo)
	h.setText(propertyPrefix+"Type", m.Type)
	h.setText(propertyPrefix+"App-Id", m.AppID)
	if m.Priority > 0 {
		h.set(propertyPrefix+"Priority", strconv.Itoa(int(m.Priority)))
	}
	if !m.Timestamp.IsZero() {
		h.set(propertyPrefix+"Timestamp", m.Timestamp.UTC().Format(time.RFC3339))
	}
	if m.Redelivered {
		h.set(propertyPrefix+"Redelivered", "true")
	}
}
