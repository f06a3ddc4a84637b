package signing_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"
)

// vectors is what a signer needs of the file of known answers, which lies with the first client that runs over it.
type vectors struct {
	Sign []struct {
		Name      string   `json:"name"`
		Secrets   []string `json:"secrets"`
		ID        string   `json:"id"`
		Timestamp int64    `json:"timestamp"`
		Body      string   `json:"body"`
		Base64    string   `json:"body_base64"`
		Repeat    int      `json:"body_repeat"`
		Signature string   `json:"signature"`
	} `json:"sign"`
	Secrets []struct {
		Name        string `json:"name"`
		Text        string `json:"text"`
		Fingerprint string `json:"fingerprint"`
		Error       string `json:"error"`
	} `json:"secrets"`
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("../../sdk/go/webhook/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Sign) == 0 || len(v.Secrets) == 0 {
		t.Fatal("a part of the vectors is empty")
	}
	return v
}

func bodyOf(t *testing.T, text, encoded string, repeat int) []byte {
	t.Helper()
	body := []byte(text)
	if encoded != "" {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		body = raw
	}
	return bytes.Repeat(body, max(repeat, 1))
}
