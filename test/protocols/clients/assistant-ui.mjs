// assistant-ui in a page, with each of its runtimes for servers: the data stream, the assistant
// transport (of which it shows the state), and the AI SDK.
import { JSDOM } from 'jsdom';
import { headers, kept, play, scenarios, until, url, wordsFor } from './shared.mjs';

const { window } = new JSDOM('<!doctype html><div id="page"></div>', { url: 'http://localhost' });
for (const name of [
  'window',
  'document',
  'HTMLElement',
  'Node',
  'MutationObserver',
  'localStorage',
  'CustomEvent',
])
  Object.defineProperty(globalThis, name, {
    value: name === 'window' ? window : window[name],
    configurable: true,
    writable: true,
  });
const { createElement } = await import('react');
const { createRoot } = await import('react-dom/client');
const { AssistantRuntimeProvider, useAssistantTool, useAssistantTransportRuntime } =
  await import('@assistant-ui/react');
const { useDataStreamRuntime } = await import('@assistant-ui/react-data-stream');
const { AssistantChatTransport, useAISDKChat, useChatRuntime } =
  await import('@assistant-ui/react-ai-sdk');
const {
  lastAssistantMessageIsCompleteWithApprovalResponses: isDecided,
  lastAssistantMessageIsCompleteWithToolCalls: isMade,
} = await import('ai');

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
  transport: (seen, more) =>
    useAssistantTransportRuntime({
      protocol: 'assistant-transport',
      initialState: { messages: [] },
      api: `${url}/ai/assistant`,
      resumeApi: `${url}/ai/assistant/resume`,
      ...more,
      headers,
      onError: (error) => seen.push(error.message),
      converter: (state, { isSending, pendingCommands }) => ({
        messages: [...state.messages, ...unsent(pendingCommands)].map(toMessage),
        isRunning: isSending,
      }),
    }),
  aiSdk: (seen, more) =>
    useChatRuntime({
      transport: new AssistantChatTransport({ api: `${url}/ai/chat`, headers, ...more }),
      sendAutomaticallyWhen: (state) => isDecided(state) || isMade(state),
      // by itself it names no message that an edit takes the place of
      toCreateMessage: ({ role, content, metadata, sourceId }) => ({
        role,
        parts: content,
        metadata: { ...metadata, sourceId },
      }),
      onError: (error) => seen.push(error.message),
    }),
};

function unsent(commands) {
  return commands.flatMap(({ type, message }) => (type === 'add-message' ? [message] : []));
}

const METADATA = {
  unstable_state: null,
  unstable_annotations: [],
  unstable_data: [],
  steps: [],
  custom: {},
};

/** A message of the state as the runtime shows it. */
function toMessage({ id, role = 'user', parts }, index) {
  const message = {
    id: id ?? `m${index}`,
    role,
    content: parts,
    createdAt: new Date(0),
    metadata: METADATA,
  };
  return role === 'assistant'
    ? { ...message, status: { type: 'complete', reason: 'stop' } }
    : { ...message, attachments: [] };
}

/**
 * A page with a runtime, and what stands within it: the tools that it has, and the chat of the AI
 * SDK where the runtime is made on one.
 */
async function open(hook, { more, tool } = {}) {
  const seen = [];
  let [runtime, chat] = [];
  const Tool = () => {
    useAssistantTool(tool);
    return null;
  };
  const Within = () => {
    chat = useAISDKChat();
    return tool ? createElement(Tool) : null;
  };
  const Page = () => {
    runtime = hook(seen, more);
    return createElement(AssistantRuntimeProvider, { runtime }, createElement(Within));
  };
  const root = createRoot(
    window.document.getElementById('page').appendChild(window.document.createElement('div')),
  );
  root.render(createElement(Page));
  await until(() => runtime !== undefined);
  const thread = () => runtime.thread;
  return { seen, thread, chat: () => chat, close: () => root.unmount() };
}

function told({ thread, seen }) {
  const { messages, isRunning } = thread().getState();
  const parts = messages
    .filter(({ role }) => role === 'assistant')
    .flatMap(({ content }) => content);
  return {
    text: parts
      .filter(({ type }) => type === 'text')
      .map(({ text }) => text)
      .join(''),
    calls: parts
      .filter(({ type }) => type === 'tool-call')
      .map(({ toolName, result, isError }) => [
        toolName,
        result ?? null,
        ...(isError ? ['error'] : []),
      ]),
    isRunning,
    status: messages.at(-1)?.status?.type,
    ...(seen.length > 0 && { errors: seen }),
  };
}

const isIdle = (page) =>
  !told(page).isRunning &&
  (told(page).calls.length > 0 ||
    told(page).text !== '' ||
    page.seen.length > 0 ||
    told(page).status === 'incomplete');

async function ask(hook, question, answer = async () => undefined, options = {}) {
  const page = await open(hook, options);
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

/** The sources stand where they were named. */
async function cited(hook) {
  let parts;
  await ask(hook, scenarios.cited.ask, async ({ thread }) => {
    ({ content: parts } = thread().getState().messages.at(-1));
  });
  return parts.map(({ type, text, url, title }) => (type === 'text' ? text : [type, url, title]));
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

/** The answer stands in the data of the question, and the chat is sent on without a message. */
async function byData(page) {
  const withAnswer = (part) =>
    part.type === 'data-question'
      ? { ...part, data: { ...part.data, answer: scenarios.question.answer } }
      : part;
  page
    .chat()
    .setMessages((messages) =>
      messages.map((message) => ({ ...message, parts: message.parts.map(withAnswer) })),
    );
  await page.chat().sendMessage();
  await settled(page, scenarios.question.said);
}

/** A tool of the page's own, which assistant-ui calls by itself. */
const ownTool = () => ({
  toolName: scenarios.clientTool.tool,
  type: 'frontend',
  description: 'Is never read: the loop has words of its own for it.',
  parameters: { type: 'object', properties: {} },
  execute: async () => scenarios.clientTool.answer,
});

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

/**
 * A page whose stream breaks in the middle, and that resumes the run: it has all of the answer,
 * each piece once.
 */
async function reconnect(more) {
  const page = await open(RUNTIMES.transport, { more });
  page
    .thread()
    .append({ role: 'user', content: [{ type: 'text', text: 'Count for another page' }] });
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

/** A page on the AI SDK whose connection breaks in the middle, and that reads its answer again. */
async function reconnectAiSdk() {
  let cut;
  const breaking = (address, init) => {
    cut = new AbortController();
    return fetch(address, { ...init, signal: cut.signal });
  };
  const page = await open(RUNTIMES.aiSdk, { more: { fetch: breaking } });
  page
    .thread()
    .append({ role: 'user', content: [{ type: 'text', text: 'Count for a page on the AI SDK' }] });
  await until(
    () => told(page).text.includes('3 '),
    () => told(page),
  );
  cut.abort();
  await until(
    () => !told(page).isRunning,
    () => told(page),
  );
  page.chat().setMessages((messages) => messages.filter(({ role }) => role === 'user'));
  await page.chat().resumeStream();
  await until(
    () => !told(page).isRunning,
    () => told(page),
  );
  const { messages } = page.thread().getState();
  const { text } = told(page);
  page.close();
  return { text, roles: messages.map(({ role }) => role) };
}

/**
 * An answer with a write is given anew, where the runtime can ask for that, and its question
 * changed.
 */
async function anew(name) {
  const { ask: asked, edited } = wordsFor(name);
  let conversationId = `assistant-ui-anew-${name}`;
  const noting = (address, init) => {
    // the runtime on the AI SDK has an id of its own
    ({ id: conversationId } = JSON.parse(init.body));
    return fetch(address, init);
  };
  const isAiSdk = name === 'aiSdk';
  const page = await open(RUNTIMES[name], {
    more: isAiSdk
      ? { fetch: noting }
      : { body: { threadId: conversationId }, capabilities: { edit: true } },
  });
  const answered = (holds) =>
    until(
      () => isIdle(page) && holds(),
      () => ({ ...told(page), messages: page.thread().getState().messages.length }),
    );
  page.thread().append({ role: 'user', content: [{ type: 'text', text: asked }] });
  await answered(() => told(page).text === 'It is stamped.');
  const { reload } = page.thread().getState().capabilities;
  let regenerated;
  if (reload) {
    const { id } = page.thread().getState().messages.at(-1);
    page.thread().getMessageByIndex(1).reload();
    await answered(
      () =>
        page.thread().getState().messages.at(-1).id !== id && told(page).text === 'It is stamped.',
    );
    regenerated = { calls: told(page).calls, kept: await kept(conversationId) };
  }
  const { composer } = page.thread().getMessageByIndex(0);
  composer.beginEdit();
  composer.setText(edited);
  composer.send();
  await answered(() => told(page).text === 'It has had its stamp.');
  const changed = { calls: told(page).calls, kept: await kept(conversationId) };
  page.close();
  return { ...(regenerated && { regenerated }), changed };
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
    ...(scenarios.cited && { cited: () => cited(hook) }),
    approved: () =>
      ask(
        hook,
        scenarios.approval.ask,
        isAiSdk ? byApproval(true) : byResult({ approved: true }, scenarios.approval.said),
      ),
    denied: () =>
      ask(
        hook,
        scenarios.approval.ask,
        isAiSdk ? byApproval(false) : byResult({ approved: false }, scenarios.approval.said),
      ),
    question: () =>
      ask(
        hook,
        scenarios.question.ask,
        isAiSdk ? byData : byResult(scenarios.question.answer, scenarios.question.said),
      ),
    clientTool: () =>
      ask(
        hook,
        scenarios.clientTool.ask,
        byResult(scenarios.clientTool.answer, scenarios.clientTool.said),
      ),
    ownTool: () =>
      ask(hook, scenarios.clientTool.ask, (page) => settled(page, scenarios.clientTool.said), {
        tool: ownTool(),
      }),
    ...(scenarios.anew && name !== 'dataStream' && { anew: () => anew(name) }),
    abort: () => abort(hook, `assistant-ui ${name}`),
    ...(isAiSdk && { reconnect: reconnectAiSdk }),
    ...(name === 'transport' && {
      reconnect: () => reconnect({ body: { threadId: 'assistant-ui-again', resumable: true } }),
      resumeState: () =>
        reconnect({
          resumeStateApi: `${url}/ai/assistant/resume-state`,
          body: { resumable: true },
        }),
    }),
  });
}

export async function assistantUiPlays(names = Object.keys(RUNTIMES)) {
  const plays = {};
  for (const name of names) plays[name] = await playsOf(name);
  return plays;
}
