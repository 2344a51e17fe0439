package frames_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestBadFramesInRabbitMQsWords: texts as RabbitMQ 3.10 to 4.3 have been seen to send them for the same octets.
func TestBadFramesInRabbitMQsWords(t *testing.T) {
	for name, tt := range map[string]struct {
		b        []byte
		frameMax uint32
		text     string
	}{
		"HTTP":         {[]byte("GET / HTTP/1.1\r\n"), 131072, "type 71, all octets = <<>>: {frame_too_large,539959368,131064}"},
		"too large":    {[]byte{3, 0, 1, 0, 0, 0x20, 1}, 8192, "type 3, all octets = <<>>: {frame_too_large,8193,8184}"},
		"unknown type": {[]byte{5, 0, 1, 0, 0, 0, 0, frames.End}, 8192, "type 5, all octets = <<>>: unknown_frame"},
		"end octet":    {[]byte{1, 0, 1, 0, 0, 0, 5, 0, 20, 0, 20, 1, 0xcd}, 8192, "type 1, all octets = <<0,20,0,20,1>>: {invalid_frame_end_marker,205}"},
		"of text":      {[]byte{3, 0, 1, 0, 0, 0, 1, 'x', 0}, 8192, `type 3, all octets = <<"x">>: {invalid_frame_end_marker,0}`},
		"with a long payload": {append(append([]byte{3, 0, 1, 0, 0, 0, 20}, "0123456789abcdefghij"...), 1), 8192,
			`type 3, first 16 octets = <<"0123456789abcdef">>: {invalid_frame_end_marker,1}`},
		"with a line that is long": {append(append([]byte{2, 0, 1, 0, 0, 0, 14}, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), 0x21), 8192,
			"type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,1,0,0>>: {invalid_frame_end_marker,\n                                                        33}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := frames.Next(tt.b, tt.frameMax)
			require.EqualError(t, err, "FRAME_ERROR - "+tt.text)
		})
	}
}
