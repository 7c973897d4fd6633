import { OpenAI } from 'openai';

/** The `openai` SDK's own loop: runTools, streamed. */
export function create(taskTools, { model, instructions }) {
  const clients = new Map();
  const tools = taskTools.map(({ name, description, parameters, execute }) => ({
    type: 'function',
    function: {
      name,
      description,
      parameters,
      parse: JSON.parse,
      function: (args) => execute(args),
    },
  }));
  return async ({ steps, prompt }, baseURL) => {
    const client = clients.get(baseURL) ?? new OpenAI({ baseURL, apiKey: 'none' });
    clients.set(baseURL, client);
    const messages = [
      { role: 'system', content: instructions },
      { role: 'user', content: prompt },
    ];
    const runner = client.chat.completions.runTools(
      { model, stream: true, stream_options: { include_usage: true }, messages, tools },
      { maxChatCompletions: steps + 1 },
    );
    let text = '';
    let toolCalls = 0;
    runner.on('content', (delta) => (text += delta));
    runner.on('functionToolCallResult', () => (toolCalls += 1));
    await runner.done();
    return { text, toolCalls };
  };
}
