package target

import (
	"strconv"
	"strings"
	"time"

	webhook "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/shardmq/shardmq/config/secret"
)

const secretPrefix = "whsec_"

// signer signs requests as Standard Webhooks has it, with every secret: so that one can be replaced without a gap.
type signer []*webhook.Webhook

func newSigner(secrets []secret.String) (signer, error) {
	var s signer
	for _, each := range secrets {
		w, err := webhook.NewWebhook(string(each))
		if err != nil {
			return nil, err
		}
		s = append(s, w)
	}
	return s, nil
}

// sign sets the headers. The time is that of the attempt; the ID is the same for all of a job's.
func (s signer) sign(h *headers, id string, at time.Time, body []byte) error {
	if len(s) == 0 {
		return nil
	}
	// A full stop ends the ID in what is signed: in the ID it would let it be taken for another one.
	id = escape(id, func(c byte) bool { return plain(c) && c != '.' })
	signatures := make([]string, len(s))
	for i, w := range s {
		var err error
		if signatures[i], err = w.Sign(id, at, body); err != nil {
			return err
		}
	}
	h.set(webhookID, id)
	h.set(webhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.set(webhookSignature, strings.Join(signatures, " "))
	return nil
}
