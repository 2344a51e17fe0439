// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Reply codes (section 1.2 of the reference; 312 is RabbitMQ's, for basic.return).
const (
	ReplySuccess       Code = 200
	ContentTooLarge    Code = 311
	NoRoute            Code = 312
	NoConsumers        Code = 313
	ConnectionForced   Code = 320
	InvalidPath        Code = 402
	AccessRefused      Code = 403
	NotFound           Code = 404
	ResourceLocked     Code = 405
	PreconditionFailed Code = 406
	FrameError         Code = 501
	SyntaxError        Code = 502
	CommandInvalid     Code = 503
	ChannelError       Code = 504
	UnexpectedFrame    Code = 505
	ResourceError      Code = 506
	NotAllowed         Code = 530
	NotImplemented     Code = 540
	InternalError      Code = 541
)

// codeNames are the words that reply texts start with.
var codeNames = map[Code]string{
	ReplySuccess:       "REPLY_SUCCESS",
	ContentTooLarge:    "CONTENT_TOO_LARGE",
	NoRoute:            "NO_ROUTE",
	NoConsumers:        "NO_CONSUMERS",
	ConnectionForced:   "CONNECTION_FORCED",
	InvalidPath:        "INVALID_PATH",
	AccessRefused:      "ACCESS_REFUSED",
	NotFound:           "NOT_FOUND",
	ResourceLocked:     "RESOURCE_LOCKED",
	PreconditionFailed: "PRECONDITION_FAILED",
	FrameError:         "FRAME_ERROR",
	SyntaxError:        "SYNTAX_ERROR",
	CommandInvalid:     "COMMAND_INVALID",
	ChannelError:       "CHANNEL_ERROR",
	UnexpectedFrame:    "UNEXPECTED_FRAME",
	ResourceError:      "RESOURCE_ERROR",
	NotAllowed:         "NOT_ALLOWED",
	NotImplemented:     "NOT_IMPLEMENTED",
	InternalError:      "INTERNAL_ERROR",
}

// Hard says whether an error with this code closes the connection; otherwise it closes only the channel.
// Unknown codes count as hard. ReplySuccess is no error and not hard.
func (c Code) Hard() bool {
	switch c {
	case ReplySuccess, ContentTooLarge, NoRoute, NoConsumers, AccessRefused, NotFound, ResourceLocked, PreconditionFailed:
		return false
	}
	return true
}
