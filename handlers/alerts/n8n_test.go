package alerts_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"gatebook/handlers/alerts"
)

// The workflow is what n8n imports, its nodes are joined, and it names only fields that
// a destination gets.
func TestExampleN8N(t *testing.T) {
	var flow struct {
		Name  string `json:"name"`
		Nodes []struct {
			ID          string         `json:"id"`
			Name        string         `json:"name"`
			Type        string         `json:"type"`
			TypeVersion any            `json:"typeVersion"`
			Position    []int          `json:"position"`
			WebhookID   string         `json:"webhookId"`
			Parameters  map[string]any `json:"parameters"`
		} `json:"nodes"`
		Connections map[string]map[string][][]struct {
			Node  string `json:"node"`
			Type  string `json:"type"`
			Index int    `json:"index"`
		} `json:"connections"`
		Active   bool           `json:"active"`
		Settings map[string]any `json:"settings"`
		PinData  map[string]any `json:"pinData"`
	}
	check(t, json.Unmarshal([]byte(alerts.ExampleN8N), &flow, json.RejectUnknownMembers(true)))
	types := map[string]string{}
	for _, n := range flow.Nodes {
		types[n.Name] = n.Type
	}
	want(t, "nodes", types, map[string]string{"Alert": "n8n-nodes-base.webhook", "Mail": "n8n-nodes-base.emailSend"})
	want(t, "leads to", flow.Connections["Alert"]["main"][0][0].Node, "Mail")
	hook, mail := flow.Nodes[0].Parameters, flow.Nodes[1].Parameters
	want(t, "method", hook["httpMethod"], "POST")

	given := posted(t, listen(t, answer(http.StatusOK)), alerts.FormatJSON, alert(1))
	field := regexp.MustCompile(`^ \$json\.body\.([a-z]+) $`)
	named := map[string]bool{}
	for _, p := range []string{"subject", "text"} {
		template := mail[p].(string)
		if !strings.HasPrefix(template, "=") {
			t.Errorf("%s is no expression", p)
		}
		for _, part := range strings.Split(template, "{{")[1:] {
			expression, _, closed := strings.Cut(part, "}}")
			m := field.FindStringSubmatch(expression)
			if !closed || m == nil {
				t.Fatalf("%q in %s", expression, p)
			}
			if _, there := given[m[1]]; !there {
				t.Errorf("%s names %s, which is not sent", p, m[1])
			}
			named[m[1]] = true
		}
	}
	if !named["text"] || !named["kind"] {
		t.Errorf("a mail has only %v", named)
	}
}
