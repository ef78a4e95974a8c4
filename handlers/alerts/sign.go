package alerts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// The headers of a delivery.
const (
	headerKey       = "Idempotency-Key"
	headerTime      = "X-Gatebook-Timestamp"
	headerSignature = "X-Gatebook-Signature"
	userAgent       = "gatebook-alerts/1"
)

// signature is the value of the signature's header. The timestamp is signed too: a
// captured request cannot be sent again later.
func signature(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte("."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
