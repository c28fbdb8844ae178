package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/outbound"
)

// maxSecrets is how many secrets sign at once: the current one and the one before it.
const maxSecrets = 2

// signers reads the secrets of a file, one a line; no file, no secret. The file is
// read for every message, because mounted secrets rotate. Errors never repeat its
// content.
func signers(file string) ([][]byte, error) {
	if file == "" {
		return nil, nil
	}
	text, err := outbound.ReadSecret(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(text)
	if len(lines) > maxSecrets {
		return nil, fmt.Errorf("%s holds %d secrets, at most %d sign", file, len(lines), maxSecrets)
	}
	var keys [][]byte
	for i, line := range lines {
		encoded, prefixed := strings.CutPrefix(line, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !prefixed || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("%s: secret %d is not whsec_ and the base64 of 24 to 64 bytes; make one with: echo \"whsec_$(openssl rand -base64 32)\"", file, i+1)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// signed returns the headers of a message by the specification Standard Webhooks 1.0: a
// receiver that checks them knows who sent it and when, and that nobody changed it. There
// is one signature for each key; the receiver needs only one of them.
func signed(keys [][]byte, id string, at time.Time, body []byte) map[string]string {
	if len(keys) == 0 {
		return nil
	}
	seconds := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, seconds, body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return map[string]string{
		"webhook-id":        id,
		"webhook-timestamp": seconds,
		"webhook-signature": strings.Join(signatures, " "),
	}
}
