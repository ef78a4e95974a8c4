package outlet

import (
	"slices"
	"testing"

	"gatebook/events"
)

func TestFaults(t *testing.T) {
	url := Source{Env: "ALERT_URL"}
	for _, row := range []struct {
		name string
		d    map[string]Destination
		t    Telegram
		want string // the path of the fault; empty for none
	}{
		{"none", nil, Telegram{}, ""},
		{"one", map[string]Destination{"ops": {URL: url, Secret: Source{File: "/etc/key"}}}, Telegram{}, ""},
		{"slack", map[string]Destination{"ops": {URL: url, Format: Slack}}, Telegram{}, ""},
		{"no address", map[string]Destination{"ops": {}}, Telegram{}, ".ops.url"},
		{"two places", map[string]Destination{"ops": {URL: Source{Env: "A", File: "/a"}}}, Telegram{}, ".ops.url"},
		{"the address itself", map[string]Destination{"ops": {URL: Source{Env: "https://hooks.example/x"}}}, Telegram{}, ".ops.url.env"},
		{"a path from somewhere", map[string]Destination{"ops": {URL: Source{File: "etc/url"}}}, Telegram{}, ".ops.url.file"},
		{"a path that goes up", map[string]Destination{"ops": {URL: Source{File: "/etc/../url"}}}, Telegram{}, ".ops.url.file"},
		{"another format", map[string]Destination{"ops": {URL: url, Format: "xml"}}, Telegram{}, ".ops.format"},
		{"another name", map[string]Destination{"Ops": {URL: url}}, Telegram{}, ".Ops"},
		{"a bot", nil, Telegram{Token: url, Chats: map[string]Chat{"a": {Chat: -1, User: 2, Person: "anna"}}}, ""},
		{"chats without a bot", nil, Telegram{Chats: map[string]Chat{"a": {Chat: 1, User: 2, Person: "anna"}}}, ".token"},
		{"a server elsewhere without TLS", nil, Telegram{Token: url, Server: "http://127.0.0.1.example:1"}, ".server"},
		{"no approver", nil, Telegram{Token: url, Chats: map[string]Chat{"a": {Chat: 1, User: 2, Person: "bob"}}}, ".chats.a.person"},
		{"no chat", nil, Telegram{Token: url, Chats: map[string]Chat{"a": {User: 2, Person: "anna"}}}, ".chats.a.chat"},
		{"no user", nil, Telegram{Token: url, Chats: map[string]Chat{"a": {Chat: 1, Person: "anna"}}}, ".chats.a.user"},
		{"the same twice", nil, Telegram{Token: url, Chats: map[string]Chat{"a": {Chat: 1, User: 2, Person: "anna"}, "b": {Chat: 1, User: 2, Person: "anna"}}}, ".chats.b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			fault := func(at, _ string) { got = append(got, at) }
			CheckDestinations(row.d, fault)
			row.t.Check(func(id events.PersonID) bool { return id == "anna" }, fault)
			var want []string
			if row.want != "" {
				want = []string{row.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("faults at %q, want %q", got, want)
			}
		})
	}
}

// Whoever is not in the list of chats, with both ids, is nobody.
func TestWho(t *testing.T) {
	bot := Telegram{Chats: map[string]Chat{"a": {Chat: 1, User: 2, Person: "anna"}, "b": {Chat: 3, User: 4, Person: "bob"}}}
	for ids, want := range map[[2]int64]events.PersonID{{1, 2}: "anna", {3, 4}: "bob", {1, 4}: "", {2, 1}: "", {0, 0}: ""} {
		if got, ok := bot.Who(ids[0], ids[1]); got != want || ok != (want != "") {
			t.Errorf("%v is %q", ids, got)
		}
	}
}

// Every difference is named, and what is equal is not.
func TestCompare(t *testing.T) {
	a := map[string]Destination{"ops": {URL: Source{Env: "A"}}, "old": {URL: Source{Env: "A"}}, "same": {URL: Source{Env: "A"}}}
	b := map[string]Destination{"ops": {URL: Source{Env: "B"}}, "new": {URL: Source{Env: "A"}}, "same": {URL: Source{Env: "A"}, Format: JSON}}
	s := Telegram{Token: Source{Env: "T"}, Chats: map[string]Chat{"a": {Chat: 1, User: 2, Person: "anna"}}}
	u := Telegram{Token: Source{File: "/t"}, Server: "http://127.0.0.1:1", Chats: map[string]Chat{"a": {Chat: 1, User: 2, Person: "anna", Alerts: true}}}
	var got []string
	for _, c := range Compare(a, b, s, u) {
		got = append(got, c.Path)
	}
	if want := []string{"alerts.new", "alerts.old", "alerts.ops", "telegram.chats.a", "telegram.server", "telegram.token"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
