"""The HTTP server: answers with confidences, learning in the background, and a record of every answer.

Path of a chat request:

    http/middleware     checks the API key, limits the size of the body, turns errors into replies
    http/routes         `chat` reads the request (fields in chat_request; objects and calls of tools in structured)
    http/streams        `TextEvents` carries pieces of text to `ChatReply`, which makes chunks
    online/texts        threads write the texts, in turns with other work
    online/queue        each written text waits for its confidence, in one queue with plain questions
    online/service      one thread answers a batch: calibrator, records, store; lessons go to the learner
    http/replies        JSON of an answer; its object `secl` has the confidence
"""
