"""The HTTP server: answers with confidences, learning in the background, and a record of every answer.

Path of a chat request:

    http/middleware     errors as replies; API key; size of the body
    http/routes         `chat` reads the request (chat_request, messages), or structured an object or calls
    http/waiting        `TextEvents` carries pieces and ends from the writing thread to the reply
    online/texts        a thread writes the texts, in turns with other work (scheduler)
    online/queue        each text waits for its confidence, among plain questions
    online/service      one thread answers a batch: calibrator, records, store; lessons go to the learner
    http/replies        `ChatReply` makes chunks of pieces, and choices with `secl` (confidence) of answers
"""
