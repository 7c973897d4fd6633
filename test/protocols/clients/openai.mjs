// OpenAI's chat completions, streamed: the `openai` SDK.
import OpenAI from 'openai';
import { play, scenarios, until, url } from './shared.mjs';

const open = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: scenarios.token, maxRetries: 0 });

/** One answer, with what our server adds to its chunks. */
async function complete(messages) {
  const stream = open().chat.completions.stream({ model: 'toolloop', messages });
  const seen = { results: [], injected: [] };
  stream.on('chunk', ({ choices: [{ delta } = {}] }) => {
    const event = delta?.toolloop;
    if (event?.type === 'tool-result')
      seen.results.push([
        event.record.id,
        event.record.status,
        event.record.result ?? event.record.error?.safeMessage,
      ]);
    if (event?.type === 'tools-injected')
      seen.injected.push(...event.tools.map((tool) => tool.id ?? tool));
  });
  const [{ message, finish_reason: end }] = (await stream.finalChatCompletion()).choices;
  return { message, end, ...seen };
}

function told({ message, end, results, injected }) {
  return { text: message.content ?? '', calls: results, injected, end };
}

async function ask(question, answer) {
  const user = { role: 'user', content: question };
  const first = await complete([user]);
  if (answer === undefined) return told(first);
  const [wanted] = first.message.tool_calls;
  const result = { role: 'tool', tool_call_id: wanted.id, content: JSON.stringify(answer) };
  return {
    asked: wanted.function.name,
    end: first.end,
    done: told(await complete([user, first.message, result])),
  };
}

async function failedRun() {
  const { code, message } = await ask(scenarios.failedRun.ask).catch((error) => error);
  return { code, message };
}

async function abort() {
  const stream = open().chat.completions.stream({
    model: 'toolloop',
    messages: [{ role: 'user', content: 'Count for openai' }],
  });
  let text = '';
  stream.on('content', (piece) => (text += piece));
  const done = stream.done().catch((error) => error.constructor.name);
  await until(() => text.includes('3 '));
  stream.abort();
  return { ended: await done, hasAll: text.includes('39') };
}

export const openAiPlays = () =>
  play({
    text: () => ask(scenarios.text.ask),
    call: () => ask(scenarios.call.ask),
    injected: () => ask(scenarios.injected.ask),
    failedCall: () => ask(scenarios.failedCall.ask),
    failedRun,
    approved: () => ask(scenarios.approval.ask, { approved: true }),
    denied: () => ask(scenarios.approval.ask, { approved: false, reason: 'Keep it.' }),
    question: () => ask(scenarios.question.ask, scenarios.question.answer),
    clientTool: () => ask(scenarios.clientTool.ask, scenarios.clientTool.answer),
    abort,
  });
