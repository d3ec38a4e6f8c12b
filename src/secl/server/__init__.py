"""The HTTP server: answers with confidences, learning in the background, and a record of every answer.

Path of a chat request:

    http/middleware     checks the API key, limits the size of the body, turns errors into replies
    http/routes         `chat` reads the request; chat_request defines its fields, structured reads tools and schemas
    online/texts        threads write the texts; writing and answering take turns
    http/streams        `TextEvents` passes each piece of text to `ChatReply`, which makes the chunks of a stream
    online/queue        each written text waits for its confidence, in the queue that also has the plain questions
    online/service      one thread computes confidences in batches, stores the records, and queues lessons
    http/replies        makes the JSON of an answer; its object `secl` has the confidence
"""
