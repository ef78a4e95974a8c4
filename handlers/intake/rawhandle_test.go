package intake

import (
	"strings"
	"testing"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/redact"
	"gatebook/handlers/tools"
)

// The book never holds a round's handle, not even where the request around it
// could not be read and its beginning is kept as it came.
func TestMalformedRequestKeepsNoHandle(t *testing.T) {
	const handle = "0123456789abcdef0123456789abcdef"
	none, err := tools.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	i := New(Config{Tools: none, Redact: redact.New(), MAC: func(b []byte) events.MAC { return events.MAC(events.DigestOf(b)) }})
	for name, body := range map[string]string{
		"unknown field":  `{"round":"r","handle":"` + handle + `","tool":"file.list","extra":1}`,
		"field in case":  `{"round":"r","Handle":"` + handle + `","tool":"file.list"}`,
		"name twice":     `{"round":"r","handle":"` + handle + `","tool":"file.list","args":{"a":1,"a":2}}`,
		"ends too early": `{"round":"r","handle":"` + handle,
		"upper case":     `{"round":"r","handle":"` + strings.ToUpper(handle) + `"}`,
		"as a name":      `{"round":"r","` + handle + `":1}`,
		"not a round":    `{"round":"r","handle":"` + handle + `","tool":"file.list"}`,
	} {
		t.Run(name, func(t *testing.T) {
			k := i.call("alice", []byte(body), nil).(*engine.Call)
			if k.Request.Malformed == nil {
				t.Fatal("the request was taken as well-formed")
			}
			text := k.Request.Arguments.Text.Text
			if strings.Contains(k.Request.Malformed.Error()+k.Request.Tool.Name, handle) {
				t.Errorf("the refusal shows the handle: %+v", k.Request.Malformed)
			}
			if strings.Contains(strings.ToLower(text), handle) {
				t.Errorf("the handle is kept: %s", text)
			}
			if !strings.Contains(text, `"round"`) {
				t.Errorf("the rest of the request is not kept: %q", text)
			}
		})
	}
}
