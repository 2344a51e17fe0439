package frames

import "fmt"

// Code is a reply code, as in channel.close, connection.close and basic.return.
type Code uint16

// Name is the code's name as RabbitMQ writes it at the start of a reply text, "PRECONDITION_FAILED";
// "CODE_599" when the code is unknown.
func (c Code) Name() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("CODE_%d", uint16(c))
}

// Exception is an AMQP error: what a channel.close or connection.close says.
type Exception struct {
	// Code says what went wrong and what closes: see Code.Hard.
	Code Code
	// Text explains it, without the code's name.
	Text string
	// Method is what caused it; 0 when no method did.
	Method MethodID
	// Remote says that a peer sent it, rather than that this program raised it.
	Remote bool
}

// Error is the code's name and the text in RabbitMQ's wording: "PRECONDITION_FAILED - text".
func (e *Exception) Error() string { return e.Code.Name() + " - " + e.Text }

// ReplyText is Error shortened to the 255 octets that the field can hold. As in RabbitMQ a shortened text ends in "...";
// UTF-8 runes stay whole.
func (e *Exception) ReplyText() string {
	const mark = "..."
	s := e.Error()
	if len(s) <= maxShortstr {
		return s
	}
	return cut(s, maxShortstr-len(mark)) + mark
}

func exceptionf(code Code, method MethodID, format string, args ...any) *Exception {
	return &Exception{Code: code, Text: fmt.Sprintf(format, args...), Method: method}
}
