// Package target asks HTTP endpoints to do jobs: it makes a request of a job, sends it, and judges the answer. It knows
// nothing of brokers, and logs nothing.
//
// # Requests
//
// Every request has the static headers, and those of Auth. These are added, unless Marks says otherwise, in all modes but
// Form:
//
//	Idempotency-Key   the job's ID, which is the same for all attempts (not in mode BatchMode)
//	Dispatch-Job      the job's name
//	Dispatch-Attempt  which attempt it is, from 1 (not in mode BatchMode)
//	traceparent       the message's, with its tracestate, or new: the trace is the same for all attempts, and sampled
//	                  (not in mode BatchMode)
//
// Text in them and in X-AMQP- headers may be anything: each octet that is not printable ASCII, each % and each space at
// an end is % and two hexadecimal digits, which decodeURIComponent and its kin undo.
//
// With SigningSecrets there are webhook-id, webhook-timestamp and webhook-signature, as Standard Webhooks has them. In
// the ID, a full stop is escaped as well. In mode BatchMode it is made of the IDs of the jobs.
//
// The modes:
//
//   - Form: as of Consumer Dispatcher, application/x-www-form-urlencoded with queueName, which is the job's name, and
//     bodyData, the body as text. What is no text in the encoding is escaped as it is.
//   - Raw: the body, with its Content-Type, and with its Content-Encoding if HTTP knows that. The message's properties,
//     as far as there are any, are X-AMQP-Queue, -Exchange, -Routing-Key, -Message-Id, -Correlation-Id, -Reply-To, -Type,
//     -App-Id, -Priority, -Timestamp (RFC 3339), -Content-Encoding (one that HTTP does not know) and -Redelivered: true.
//   - CloudEvent: CloudEvents 1.0 over HTTP in binary content mode. ID, time, and type are the message's; the subject is
//     the routing key. A message that is a CloudEvent, by headers cloudEvents:NAME, cloudEvents_NAME or ce-NAME, or by its
//     content type, keeps its attributes; if it is not a valid one, the outcome is Invalid.
//   - CloudStructured: the same in structured content mode, as JSON. A body is in "data" if it is JSON or text, else in
//     "data_base64". A message that is in structured mode already is sent as it is.
//   - BatchMode: a JSON array of objects with id, attempt, queue, exchange, routing_key, and, if there are any,
//     content_type, content_encoding, message_id, correlation_id, reply_to, type, app_id, priority, timestamp,
//     redelivered, headers; and data or data_base64 as in CloudStructured.
//
// Properties are headers of messages that are passed on, if their values are text, numbers, truth values or times, and of
// at most 4 KiB. In modes Form and Raw they become HTTP headers of the same name; "*" passes on all as
// X-AMQP-Header-NAME: publishers do not get to set headers that an endpoint may trust. In CloudEvents they become
// extension attributes, whose names have the small letters and digits of theirs. In BatchMode they are in headers.
//
// # Answers
//
// Rules judge the status and the first 64 KiB of the body. Redirects are answers; they are not followed. An answer to a
// batch is of all jobs, unless its status is 200 to 299 and it is a JSON array of one status for each job, in their
// order, or a JSON object of statuses by the jobs' IDs. Then Rules judge each status, without a body; a job that is not
// told of is tried again.
//
// A request is sent once. A connection that breaks is an attempt, unless the endpoint had closed it before the request.
package target
