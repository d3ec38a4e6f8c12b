"""The HTTP server: answers with confidences, learning in the background, and a record of every answer.

Path of a chat request:

    http/middleware     errors as replies; API key; size of the body
    http/routes         `chat` reads the request; chat_request has its fields, structured its object or tools
    http/streams        `TextEvents` carries pieces and ends from the writing thread to `ChatReply`, which makes chunks
    online/texts        a thread writes the texts, in turns with other work (queue)
    online/queue        each text waits for its confidence, among plain questions
    online/service      one thread answers a batch: calibrator, records, store; lessons go to the learner
    http/replies        choices with `secl`, the confidence of an answer
"""
