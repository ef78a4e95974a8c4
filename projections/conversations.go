package projections

import (
	"fmt"

	"gatebook/events"
)

// ConversationRow is what the views know of one context of an agent.
type ConversationRow struct {
	_            struct{} `cbor:",toarray"`
	Conversation events.ConversationID
	Agent        events.AgentID
	Channel      events.ChannelID
	Fresh        bool // a channel or a person declared it fresh
	Tainted      bool // for as long as it lasts
	Closed       bool
	OpenRound    events.RoundID // empty where none is open
	Seq          events.Seq     // of the last event about it
}

// ConversationByID finds a conversation, closed or not.
func ConversationByID(r Reader, id events.ConversationID) (ConversationRow, bool, error) {
	var row ConversationRow
	ok, err := loadRow(r, keyOf(viewConversation, string(id)), &row)
	return row, ok, err
}

func (f *fold) conversationOpened(e events.ConversationOpened) error {
	if err := f.enrolledAgent(); err != nil {
		return err
	}
	_, ok, err := ConversationByID(f.tx, e.Conversation)
	if err != nil {
		return err
	}
	if ok || e.Conversation == "" {
		return fmt.Errorf("%w: conversation %s cannot be opened again", ErrFold, events.Quote(string(e.Conversation)))
	}
	return f.setConversation(ConversationRow{
		Conversation: e.Conversation, Agent: f.rec.Agent, Channel: e.Channel, Fresh: e.Fresh,
	})
}

func (f *fold) conversationClosed(e events.ConversationClosed) error {
	row, err := f.openConversation(e.Conversation)
	if err != nil {
		return err
	}
	row.Closed = true
	return f.setConversation(row)
}

// ownConversation finds a conversation of the event's agent.
func (f *fold) ownConversation(id events.ConversationID) (ConversationRow, error) {
	row, ok, err := ConversationByID(f.tx, id)
	if err != nil {
		return row, err
	}
	if !ok || row.Agent != f.rec.Agent {
		return row, fmt.Errorf("%w: %s has no conversation %s", ErrFold,
			events.Quote(string(f.rec.Agent)), events.Quote(string(id)))
	}
	return row, nil
}

func (f *fold) openConversation(id events.ConversationID) (ConversationRow, error) {
	row, err := f.ownConversation(id)
	if err == nil && row.Closed {
		err = fmt.Errorf("%w: conversation %s is closed", ErrFold, id)
	}
	return row, err
}

func (f *fold) setConversation(row ConversationRow) error {
	row.Seq = f.rec.Seq
	return f.set(keyOf(viewConversation, string(row.Conversation)), row)
}
