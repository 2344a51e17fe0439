// Package frames is the AMQP 0-9-1 wire format: frame boundaries, methods, field tables, content headers, reply codes.
//
// It works on byte slices and does no input or output. Decoding never allocates more than the frame at hand holds:
// every length is bounded by the octets left in that frame. What is looked at for every message (Next, ParsePublish,
// ParseDeliver, ParseAck, ParseContentHeader, AppendHeaderBCC) allocates nothing.
//
// Views (Frame, Table, Publish, Deliver, ContentHeader, and the Table and []byte fields of decoded methods) borrow the
// slice they were made from: with a read buffer behind them they are valid until the next read. Copy what must stay.
//
// Nothing in this package keeps state; all functions are safe for concurrent use on different data.
//
// The methods and reply codes are generated from spec/amqp091.txt.
package frames

//go:generate go run ./internal/gen
