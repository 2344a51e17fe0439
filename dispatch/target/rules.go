package target

// Rules say what answers mean. The first of AckWhen, DropWhen and DeadLetterWhen that matches decides; where none does,
// the job is tried again.
type Rules struct{ AckWhen, DropWhen, DeadLetterWhen Match }

// Match matches answers. The zero value matches none.
type Match struct {
	Statuses []StatusRange // any of these
	Body     string        // if not empty, what the body has to be: without space around it, in any case
	Contains string        // if not empty, what the body has to contain
}

// StatusRange is a range of status codes, both ends included.
type StatusRange struct{ From, To int }
