"""The HTTP server: answers with a confidence, learning behind them, and a record of everything.

A chat on its way:

    http/middleware     errors become replies; key; size of the body
    http/routes         `chat` reads the request (chat_request, messages); objects and calls go through structured
    http/waiting        `TextEvents`: what happens to its texts, from the thread that writes to the reply
    online/texts        a thread writes the texts in turns with other work (scheduler), then puts each into the
    online/queue        queue, in which plain questions wait as well
    online/service      one thread answers a batch: calibrator, records, store; lessons go on to the learner
    http/replies        `ChatReply`: pieces become chunks, answers become choices with `secl` (confidence)
"""
