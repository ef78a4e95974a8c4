package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveTelegram is "telegram FOLDER VARIABLE": a server that speaks as much of the Bot API
// as a script needs, whose address it puts into the variable. A file in.N of the folder
// ("CHAT USER TEXT") is the N-th update, from 1, as a message, or as a press of the last
// message's button that has this label where the text begins with "press:". What the bot
// says goes to the file out, a message on a line.
func serveTelegram(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: telegram FOLDER VARIABLE")
	}
	api := &botAPI{dir: ts.MkAbs(args[0])}
	ts.Check(os.MkdirAll(api.dir, 0o700))
	server := httptest.NewServer(api)
	ts.Defer(server.Close)
	ts.Setenv(args[1], server.URL)
}

type botAPI struct {
	dir     string
	said    int
	buttons map[string]string // of the last message that had some: label to data
	shown   map[string]any    // that message
}

func (b *botAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var result any = true
	switch method := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; method {
	case "getMe":
		result = map[string]any{"id": 1, "is_bot": true, "first_name": "b", "username": "b"}
	case "getUpdates":
		result = b.updates(r)
	case "sendMessage":
		result = b.sent(r)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

// updates waits a little for the update that is asked for.
func (b *botAPI) updates(r *http.Request) []any {
	offset, _ := strconv.Atoi(r.FormValue("offset"))
	offset = max(offset, 1)
	for range 20 {
		raw, err := os.ReadFile(filepath.Join(b.dir, fmt.Sprint("in.", offset)))
		if words := strings.SplitN(strings.TrimSpace(string(raw)), " ", 3); err == nil && len(words) == 3 {
			return []any{b.update(offset, words[0], words[1], words[2])}
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil
		}
	}
	return []any{}
}

func (b *botAPI) update(id int, chat, user, text string) any {
	from := map[string]any{"id": json.Number(user), "is_bot": false, "first_name": "u"}
	if label, is := strings.CutPrefix(text, "press:"); is {
		return map[string]any{"update_id": id, "callback_query": map[string]any{
			"id": fmt.Sprint("q", id), "from": from, "chat_instance": "i", "data": b.buttons[label], "message": b.shown,
		}}
	}
	b.said++
	return map[string]any{"update_id": id, "message": map[string]any{
		"message_id": b.said, "date": 1, "from": from, "chat": map[string]any{"id": json.Number(chat), "type": "private"}, "text": text,
		"entities": []any{map[string]any{"type": "bot_command", "offset": 0, "length": len(strings.Fields(text)[0])}},
	}}
}

func (b *botAPI) sent(r *http.Request) any {
	text := r.FormValue("text")
	f, err := os.OpenFile(filepath.Join(b.dir, "out"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.WriteString(f, r.FormValue("chat_id")+" "+strings.ReplaceAll(text, "\n", " / ")+"\n")
		err = closed(f, err)
	}
	if err != nil {
		return nil
	}
	b.said++
	message := map[string]any{
		"message_id": b.said, "date": 1, "chat": map[string]any{"id": json.Number(r.FormValue("chat_id")), "type": "private"}, "text": text,
	}
	var markup struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if json.Unmarshal([]byte(r.FormValue("reply_markup")), &markup) == nil && len(markup.Rows) > 0 {
		b.buttons, b.shown = map[string]string{}, message
		for _, row := range markup.Rows {
			for _, one := range row {
				b.buttons[one.Text] = one.Data
			}
		}
	}
	return message
}
