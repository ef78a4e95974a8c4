package projections

import (
	"cmp"
	"fmt"

	"gatebook/events"
)

// AgentRow is what the views know of one agent.
type AgentRow struct {
	_      struct{} `cbor:",toarray"`
	Agent  events.AgentID
	Role   string
	Key    events.PublicKey
	Parent events.AgentID // empty for an agent of the catalog
	// ChildAllow and ChildDeny are what its parent leaves it; see
	// [events.ChildDeclared].
	ChildAllow, ChildDeny string
	Longtime              string         // profile; empty where none is set
	Released              bool           // for good
	Enrolled              events.Instant // the first time
	LastActivity          events.Instant // of its rounds and calls; 0 before the first
	OpenRounds            int64
	Seq                   events.Seq // of the last event about it
}

// AgentByID finds an agent, released or not.
func AgentByID(r Reader, id events.AgentID) (AgentRow, bool, error) {
	return loadRow[AgentRow](r, keyOf(viewAgent, string(id)))
}

// Agents lists agents by id after the given one, at most limit of them (see
// [PageSize]). The next page begins after the last of this one.
func Agents(r Reader, after events.AgentID, limit int) ([]AgentRow, error) {
	limit = PageSize(limit)
	lower := keyOf(viewAgent, "")
	if after != "" {
		lower = append(keyOf(viewAgent, string(after)), 0)
	}
	var rows []AgentRow
	for raw, err := range r.Scan(lower, []byte{viewAgent + 1}) {
		if err != nil {
			return nil, err
		}
		row, err := decoded[AgentRow](raw.Value)
		if err != nil {
			return nil, err
		}
		if rows = append(rows, row); len(rows) == limit {
			break
		}
	}
	return rows, nil
}

func (f *fold) loadAgent() (err error) {
	if f.rec.Agent != "" {
		f.agent, f.known, err = AgentByID(f.tx, f.rec.Agent)
	}
	return err
}

func (f *fold) saveAgent() {
	if !f.known {
		return // refusals of an agent that is not enrolled
	}
	f.agent.Seq = f.rec.Seq
	f.set(keyOf(viewAgent, string(f.rec.Agent)), f.agent)
}

// aboutAgent is the law that the event names an agent.
func (f *fold) aboutAgent() error {
	if f.rec.Agent == "" {
		return fmt.Errorf("%w: %s about no agent", ErrFold, f.rec.Event.Kind())
	}
	return nil
}

// enrolledAgent is the law that the event's agent is enrolled and not released.
func (f *fold) enrolledAgent() error {
	if !f.known || f.agent.Released {
		return fmt.Errorf("%w: %s about agent %s, which is not enrolled", ErrFold,
			f.rec.Event.Kind(), events.Quote(string(f.rec.Agent)))
	}
	return nil
}

// agentEnrolled also takes a second enrolment, with another key or role: its
// rounds and its longtime profile stay.
func (f *fold) agentEnrolled(e events.AgentEnrolled) error {
	if err := f.aboutAgent(); err != nil {
		return err
	}
	if f.agent.Released {
		return fmt.Errorf("%w: agent %s is released and its id never given again", ErrFold, f.rec.Agent)
	}
	if f.known && f.agent.Parent != e.Parent {
		return fmt.Errorf("%w: agent %s is not a child of %s", ErrFold, f.rec.Agent, events.Quote(string(e.Parent)))
	}
	if _, known, err := AgentByID(f.tx, e.Parent); e.Parent != "" && (err != nil || !known) {
		return cmp.Or(err, fmt.Errorf("%w: agent %s is a child of %s, which is not known", ErrFold, f.rec.Agent, events.Quote(string(e.Parent))))
	}
	if !f.known {
		f.agent, f.known = AgentRow{Agent: f.rec.Agent, Parent: e.Parent, Enrolled: f.rec.Time}, true
	}
	f.agent.Role, f.agent.Key = e.Role, e.Key
	return nil
}

func (f *fold) childDeclared(e events.ChildDeclared) error {
	if err := f.childOf(e.Parent); err != nil {
		return err
	}
	f.agent.ChildAllow, f.agent.ChildDeny = e.Allow, e.Deny
	return nil
}

func (f *fold) childRevoked(e events.ChildRevoked) error {
	if err := f.childOf(e.Parent); err != nil {
		return err
	}
	f.forget()
	return nil
}

// childOf is the law that the event's agent is enrolled, and a child of parent.
func (f *fold) childOf(parent events.AgentID) error {
	if err := f.enrolledAgent(); err != nil {
		return err
	}
	if parent == "" || f.agent.Parent != parent {
		return fmt.Errorf("%w: agent %s is not a child of %s", ErrFold, f.rec.Agent, events.Quote(string(parent)))
	}
	return nil
}

func (f *fold) agentReleased() error {
	if err := f.enrolledAgent(); err != nil {
		return err
	}
	f.forget()
	return nil
}

// forget lets go of an agent for good, and of its longtime profile.
func (f *fold) forget() { f.agent.Released, f.agent.Longtime = true, "" }

func (f *fold) profileSet(e events.ProfileSet) error {
	if err := f.enrolledAgent(); err != nil {
		return err
	}
	f.agent.Longtime = e.Profile
	return nil
}

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
	return loadRow[ConversationRow](r, keyOf(viewConversation, string(id)))
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
	f.setConversation(ConversationRow{
		Conversation: e.Conversation, Agent: f.rec.Agent, Channel: e.Channel, Fresh: e.Fresh,
	})
	return nil
}

func (f *fold) conversationClosed(e events.ConversationClosed) error {
	row, err := f.openConversation(e.Conversation)
	if err != nil {
		return err
	}
	row.Closed = true
	f.setConversation(row)
	return nil
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

func (f *fold) setConversation(row ConversationRow) {
	row.Seq = f.rec.Seq
	f.set(keyOf(viewConversation, string(row.Conversation)), row)
}
