// AG-UI 1.0: HttpAgent of @ag-ui/client.
import { HttpAgent } from '@ag-ui/client';
import { headers, play, SCENARIOS, until, url } from './shared.mjs';

let threads = 0;

/** An agent of a new thread, with what it was told. */
function open() {
  const agent = new HttpAgent({ url: `${url}/ai/agui`, headers, threadId: `ag-ui-${(threads += 1)}` });
  const heard = { ends: [], injected: [], errors: [] };
  const watch = {
    onEvent: ({ event }) => {
      if (event.type === 'RUN_FINISHED') heard.ends.push(event.outcome);
      if (event.type === 'RUN_ERROR') heard.errors.push(event.message);
      if (event.type === 'CUSTOM' && event.name === 'toolloop.tools-injected')
        heard.injected.push(...event.value.tools.map((tool) => tool.id ?? tool));
    },
  };
  let runs = 0;
  const run = (more = {}) =>
    agent
      .runAgent({ runId: `${agent.threadId}-${(runs += 1)}`, ...more }, watch)
      .catch((error) => heard.errors.push(`thrown: ${error.message}`));
  return { agent, heard, run };
}

function told({ agent: { messages }, heard: { ends, injected, errors } }) {
  const calls = messages.flatMap(({ toolCalls = [] }) => toolCalls);
  return {
    text: messages
      .filter(({ role, content }) => role === 'assistant' && content)
      .map(({ content }) => content)
      .join(''),
    calls: calls.map(({ id, function: { name } }) => [
      name,
      ...messages.filter(({ toolCallId }) => toolCallId === id).map(({ content }) => content),
    ]),
    injected,
    ends: ends.map(({ type }) => type),
    errors,
  };
}

async function ask(question, answer = async () => undefined) {
  const page = open();
  page.agent.messages = [{ id: 'u1', role: 'user', content: question }];
  await page.run();
  await answer(page);
  return told(page);
}

/** Answers the interrupts of the run before, in the next one. */
function resolve(page, payload) {
  const { interrupts } = page.heard.ends.at(-1);
  return page.run({ resume: interrupts.map(({ id: interruptId }) => ({ interruptId, status: 'resolved', payload })) });
}

function clientTool() {
  return ask(SCENARIOS.clientTool, async (page) => {
    const [toolCallId] = page.heard.ends.at(-1).pendingToolCallIds;
    page.agent.messages.push({ id: 't1', role: 'tool', toolCallId, content: 'red' });
    await page.run();
  });
}

/** The protocol cannot read on, so a run ends with its reader. */
async function abort() {
  const page = open();
  page.agent.messages = [{ id: 'u1', role: 'user', content: 'Count for ag-ui' }];
  const running = page.run();
  await until(
    () => told(page).text.includes('3 '),
    () => told(page),
  );
  page.agent.abortRun();
  await running;
  return { hasAll: told(page).text.includes('39') };
}

export const agUiPlays = () =>
  play({
    text: () => ask(SCENARIOS.text),
    call: () => ask(SCENARIOS.call),
    injected: () => ask(SCENARIOS.injected),
    failedCall: () => ask(SCENARIOS.failedCall),
    failedRun: () => ask(SCENARIOS.failedRun),
    approved: () => ask(SCENARIOS.approved, (page) => resolve(page, { approved: true })),
    denied: () => ask(SCENARIOS.denied, (page) => resolve(page, { approved: false, reason: 'Keep it.' })),
    question: () => ask(SCENARIOS.question, (page) => resolve(page, { answer: 'M' })),
    clientTool,
    abort,
  });
