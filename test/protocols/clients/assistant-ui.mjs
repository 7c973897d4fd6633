// assistant-ui in a page, with each of its runtimes for servers: the data stream, the assistant transport (of which it shows the state), and the AI SDK.
import { JSDOM } from 'jsdom';
import { headers, play, scenarios, until, url } from './shared.mjs';

const { window } = new JSDOM('<!doctype html><div id="page"></div>', { url: 'http://localhost' });
for (const name of ['window', 'document', 'HTMLElement', 'Node', 'MutationObserver', 'localStorage', 'CustomEvent'])
  Object.defineProperty(globalThis, name, { value: name === 'window' ? window : window[name], configurable: true, writable: true });
const { createElement } = await import('react');
const { createRoot } = await import('react-dom/client');
const { AssistantRuntimeProvider, useAssistantTransportRuntime } = await import('@assistant-ui/react');
const { useDataStreamRuntime } = await import('@assistant-ui/react-data-stream');
const { AssistantChatTransport, useChatRuntime } = await import('@assistant-ui/react-ai-sdk');
const { lastAssistantMessageIsCompleteWithApprovalResponses: isAnswered } = await import('ai');

/** The runtimes, as hooks; `seen` collects what they say went wrong. */
const RUNTIMES = {
  dataStream: (seen) =>
    useDataStreamRuntime({
      protocol: 'data-stream',
      api: `${url}/ai/data-stream`,
      headers,
      maxSteps: 20, // by itself it takes no answer behind the second step
      onError: (error) => seen.push(error.message),
    }),
  transport: (seen, body) =>
    useAssistantTransportRuntime({
      protocol: 'assistant-transport',
      initialState: { messages: [] },
      api: `${url}/ai/assistant`,
      resumeApi: `${url}/ai/assistant/resume`,
      headers,
      body,
      onError: (error) => seen.push(error.message),
      converter: (state, { isSending, pendingCommands }) => ({
        messages: [...state.messages, ...unsent(pendingCommands)].map(toMessage),
        isRunning: isSending,
      }),
    }),
  aiSdk: (seen) =>
    useChatRuntime({
      transport: new AssistantChatTransport({ api: `${url}/ai/chat`, headers }),
      sendAutomaticallyWhen: isAnswered,
      onError: (error) => seen.push(error.message),
    }),
};

function unsent(commands) {
  return commands.flatMap(({ type, message }) => (type === 'add-message' ? [message] : []));
}

const METADATA = { unstable_state: null, unstable_annotations: [], unstable_data: [], steps: [], custom: {} };

/** A message of the state as the runtime shows it. */
function toMessage({ id, role = 'user', parts }, index) {
  const message = { id: id ?? `m${index}`, role, content: parts, createdAt: new Date(0), metadata: METADATA };
  return role === 'assistant' ? { ...message, status: { type: 'complete', reason: 'stop' } } : { ...message, attachments: [] };
}

async function open(hook, body) {
  const seen = [];
  let runtime;
  const Page = () => {
    runtime = hook(seen, body);
    return createElement(AssistantRuntimeProvider, { runtime });
  };
  const root = createRoot(window.document.getElementById('page').appendChild(window.document.createElement('div')));
  root.render(createElement(Page));
  await until(() => runtime !== undefined);
  const thread = () => runtime.thread;
  return { seen, thread, close: () => root.unmount() };
}

function told({ thread, seen }) {
  const { messages, isRunning } = thread().getState();
  const parts = messages.filter(({ role }) => role === 'assistant').flatMap(({ content }) => content);
  return {
    text: parts
      .filter(({ type }) => type === 'text')
      .map(({ text }) => text)
      .join(''),
    calls: parts
      .filter(({ type }) => type === 'tool-call')
      .map(({ toolName, result, isError }) => [toolName, result ?? null, ...(isError ? ['error'] : [])]),
    isRunning,
    status: messages.at(-1)?.status?.type,
    ...(seen.length > 0 && { errors: seen }),
  };
}

const isIdle = (page) =>
  !told(page).isRunning &&
  (told(page).calls.length > 0 || told(page).text !== '' || page.seen.length > 0 || told(page).status === 'incomplete');

async function ask(hook, question, answer = async () => undefined) {
  const page = await open(hook);
  page.thread().append({ role: 'user', content: [{ type: 'text', text: question }] });
  await until(
    () => isIdle(page),
    () => told(page),
  );
  await answer(page);
  const { isRunning: _isRunning, ...shown } = told(page);
  page.close();
  return shown;
}

const settled = (page, text) =>
  until(
    () => told(page).text === text && !told(page).isRunning,
    () => told(page),
  );

/** The last part that is a call. */
function callOf({ thread }) {
  const messages = thread().getState().messages;
  const index = messages.findLastIndex(({ role }) => role === 'assistant');
  const part = messages[index].content.findLastIndex(({ type }) => type === 'tool-call');
  return thread().getMessageByIndex(index).getMessagePartByIndex(part);
}

const byResult = (result, text) => async (page) => {
  callOf(page).addToolResult(result);
  await settled(page, text);
};

const byApproval = (approved) => async (page) => {
  callOf(page).respondToToolApproval({ approved });
  await settled(page, scenarios.approval.said);
};

async function abort(hook, name) {
  const page = await open(hook);
  page.thread().append({ role: 'user', content: [{ type: 'text', text: `Count for ${name}` }] });
  await until(
    () => told(page).text.includes('3 '),
    () => told(page),
  );
  page.thread().cancelRun();
  await until(
    () => !told(page).isRunning,
    () => told(page),
  );
  const { text } = told(page);
  page.close();
  return { hasAll: text.includes('39') };
}

/** A page whose stream breaks in the middle, and that resumes the run: it has all of the answer, each piece once. */
async function reconnect() {
  const page = await open(RUNTIMES.transport, { threadId: 'assistant-ui-again', resumable: true });
  page.thread().append({ role: 'user', content: [{ type: 'text', text: 'Count for another page' }] });
  await until(
    () => told(page).text.includes('3 '),
    () => told(page),
  );
  page.thread().cancelRun();
  await until(
    () => !told(page).isRunning,
    () => told(page),
  );
  const { text: before } = told(page);
  const { messages } = page.thread().getState();
  page.thread().resumeRun({ parentId: messages.at(-1).id });
  await until(
    () => !told(page).isRunning && told(page).text.length > before.length,
    () => told(page),
  );
  const { text, errors = [] } = told(page);
  const { messages: after } = page.thread().getState();
  page.close();
  return { text, roles: after.map(({ role }) => role), errors };
}

function playsOf(name) {
  const hook = RUNTIMES[name];
  const isAiSdk = name === 'aiSdk';
  return play({
    text: () => ask(hook, scenarios.text.ask),
    call: () => ask(hook, scenarios.call.ask),
    injected: () => ask(hook, scenarios.injected.ask),
    failedCall: () => ask(hook, scenarios.failedCall.ask),
    failedRun: () => ask(hook, scenarios.failedRun.ask),
    approved: () => ask(hook, scenarios.approval.ask, isAiSdk ? byApproval(true) : byResult({ approved: true }, scenarios.approval.said)),
    denied: () => ask(hook, scenarios.approval.ask, isAiSdk ? byApproval(false) : byResult({ approved: false }, scenarios.approval.said)),
    ...(!isAiSdk && {
      question: () => ask(hook, scenarios.question.ask, byResult(scenarios.question.answer, scenarios.question.said)),
      clientTool: () => ask(hook, scenarios.clientTool.ask, byResult(scenarios.clientTool.answer, scenarios.clientTool.said)),
    }),
    abort: () => abort(hook, `assistant-ui ${name}`),
    ...(name === 'transport' && { reconnect }),
  });
}

export async function assistantUiPlays(names = Object.keys(RUNTIMES)) {
  const plays = {};
  for (const name of names) plays[name] = await playsOf(name);
  return plays;
}
