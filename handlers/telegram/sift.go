package telegram

import (
	stdjson "encoding/json" // as the library reads

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-telegram/bot/models"
)

// sift goes through the updates of a poll before the library reads them, all or none:
// one that it cannot read, as with a kind of message that is newer than it, would come
// again and again and hold up all others. Of such a one only the number is left.
func sift(result jsontext.Value) (jsontext.Value, *Failure) {
	bad := &Failure{Method: methodPoll, Reason: "the answer is not a list of updates"}
	var all []jsontext.Value
	if json.Unmarshal(result, &all, jsontext.AllowInvalidUTF8(true)) != nil || len(all) > 10*maxUpdates {
		return nil, bad
	}
	for i, one := range all {
		var update models.Update
		if stdjson.Unmarshal(one, &update) == nil && update.ID > 0 {
			continue
		}
		var head struct {
			ID int64 `json:"update_id"`
		}
		if json.Unmarshal(one, &head, jsontext.AllowInvalidUTF8(true)) != nil || head.ID <= 0 {
			return nil, bad
		}
		left, err := json.Marshal(head)
		if err != nil {
			return nil, bad
		}
		all[i] = left
	}
	out, err := json.Marshal(all, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, bad
	}
	return out, nil
}
