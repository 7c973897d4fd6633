import { chat, maxIterations, toolDefinition } from '@tanstack/ai';
import { createOpenaiChatCompletions } from '@tanstack/ai-openai';

/** TanStack AI's chat over chat completions, all its chunks read. */
export function create(taskTools, { model, instructions }) {
  const adapters = new Map();
  const tools = taskTools.map(({ name, description, parameters, execute }) =>
    toolDefinition({ name, description, inputSchema: parameters }).server(async (args) =>
      execute(args),
    ),
  );
  return async ({ steps, prompt }, baseURL) => {
    const adapter =
      adapters.get(baseURL) ?? createOpenaiChatCompletions(model, 'none', { baseURL });
    adapters.set(baseURL, adapter);
    let text = '';
    let toolCalls = 0;
    const messages = [{ role: 'user', content: prompt }];
    for await (const chunk of chat({
      adapter,
      messages,
      tools,
      systemPrompts: [instructions],
      agentLoopStrategy: maxIterations(steps + 1),
    })) {
      if (chunk.type === 'TEXT_MESSAGE_CONTENT') text += chunk.delta;
      if (chunk.type === 'TOOL_CALL_RESULT') toolCalls += 1;
      if (chunk.type === 'RUN_ERROR') throw new Error(chunk.message);
    }
    return { text, toolCalls };
  };
}
