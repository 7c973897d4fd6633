import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';

/**
 * Pours an answer of so many megabytes, in events of about 1 KB of text, as fast as it is read. The
 * last part of the path says which API speaks. Tells its port to its parent, and how much it has
 * written whenever it is asked.
 */
const WORDS = 'word '.repeat(200);

const EVENTS: Readonly<Record<string, readonly [begin: string, word: string, end: string]>> = {
  completions: [
    '',
    data({ choices: [{ index: 0, delta: { content: WORDS } }] }),
    data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  ],
  responses: [
    '',
    data({ type: 'response.output_text.delta', output_index: 0, delta: WORDS }),
    data({ type: 'response.completed', response: { status: 'completed', output: [] } }),
  ],
  messages: [
    data({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    data({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: WORDS } }),
    data({ type: 'message_delta', delta: { stop_reason: 'end_turn' } }) +
      data({ type: 'message_stop' }),
  ],
};

let written = 0;
const server = createServer((request, response) => {
  request.resume();
  const [, megabytes = '1'] = (request.url ?? '').split('/');
  void pour(response, (request.url ?? '').split('/').at(-1) ?? '', Number(megabytes) * 2 ** 20);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address) process.send?.(address.port);
});
process.on('message', () => process.send?.(written));
process.on('disconnect', () => process.exit());

async function pour(response: ServerResponse, api: string, bytes: number): Promise<void> {
  const [begin, word, end] = EVENTS[api] ?? ['', '', ''];
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(begin);
  for (written = 0; written < bytes && !response.destroyed; written += word.length) {
    if (!response.write(word)) await once(response, 'drain');
  }
  response.end(end);
}

function data(payload: object): string {
  return `data: ${JSON.stringify(payload)}\n\n`;
}
