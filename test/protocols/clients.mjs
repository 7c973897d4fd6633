// Drives the real clients of the chat protocols against an application, whose address is the first argument, and prints what each of them understood.
import { HttpAgent } from '@ag-ui/client';
import { DefaultChatTransport, readUIMessageStream } from 'ai';
import { AssistantMessageAccumulator, AssistantTransportDecoder, DataStreamDecoder } from 'assistant-stream';

const [url] = process.argv.slice(2);
const headers = { authorization: 'Bearer alice' };

async function agUi() {
  const agent = new HttpAgent({ url: `${url}/ai/agui`, headers, threadId: 'thread' });
  const ends = [];
  const watch = { onEvent: ({ event }) => void (event.type === 'RUN_FINISHED' && ends.push(event.outcome)) };
  agent.messages = [{ id: 'u1', role: 'user', content: 'Read it' }];
  await agent.runAgent({ runId: 'r1' }, watch);
  agent.messages.push({ id: 'u2', role: 'user', content: 'Delete it' });
  await agent.runAgent({ runId: 'r2' }, watch);
  const [{ id: interruptId }] = ends.at(-1).interrupts;
  await agent.runAgent({ runId: 'r3', resume: [{ interruptId, status: 'resolved', payload: { approved: true } }] }, watch);
  const told = agent.messages.map(({ role, content, toolCalls }) => [
    role,
    content ?? toolCalls.map((call) => call.function.arguments).join(),
  ]);
  return { told, ends: ends.map(({ type }) => type) };
}

async function assistantStream(path, body, decoder) {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  let message;
  for await (const one of response.body.pipeThrough(decoder).pipeThrough(new AssistantMessageAccumulator())) message = one;
  return message;
}

async function assistantTransport() {
  const command = { type: 'add-message', message: { role: 'user', parts: [{ type: 'text', text: 'Read it' }] } };
  const body = { commands: [command], state: { messages: [] }, threadId: 'transport' };
  const { metadata, status } = await assistantStream('/ai/assistant', body, new AssistantTransportDecoder());
  const parts = metadata.unstable_state.messages.map((message) => message.parts.map(({ type, text, result }) => text ?? [type, result]));
  return { parts, status: status.type };
}

async function dataStream() {
  const body = { messages: [{ role: 'user', content: [{ type: 'text', text: 'Read it' }] }], threadId: 'data' };
  const { parts, status } = await assistantStream('/ai/data-stream', body, new DataStreamDecoder());
  return { parts: parts.map(({ type, text, result }) => text ?? [type, result]), status: status.type };
}

async function aiSdk() {
  const transport = new DefaultChatTransport({ api: `${url}/ai/chat`, headers });
  const chat = { chatId: 'ai', trigger: 'submit-message', messageId: undefined, abortSignal: undefined };
  const user = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'Delete it' }] };
  const read = async (messages, message) => {
    const stream = await transport.sendMessages({ ...chat, messages });
    let last;
    for await (const one of readUIMessageStream({ stream, ...(message && { message }) })) last = one;
    return last;
  };
  const asked = await read([user]);
  const answered = structuredClone(asked);
  const part = answered.parts.find(({ approval }) => approval !== undefined);
  Object.assign(part, { state: 'approval-responded', approval: { ...part.approval, approved: false, reason: 'Keep it.' } });
  const done = await read([user, answered], answered);
  const resumed = await transport.reconnectToStream({ chatId: 'ai' });
  const states = (message) => message.parts.filter(({ type }) => type.startsWith('tool-')).map(({ state }) => state);
  return { asked: states(asked), done: states(done), text: done.parts.findLast(({ type }) => type === 'text')?.text, resumed };
}

const told = {};
for (const [name, ask] of Object.entries({ agUi, assistantTransport, dataStream, aiSdk })) told[name] = await ask();
process.stdout.write(JSON.stringify(told));
