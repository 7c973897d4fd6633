import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { isStepCount, jsonSchema, streamText, tool } from 'ai';

/** AI SDK 7: streamText, its whole stream read. */
export function create(taskTools, { model, instructions }) {
  const providers = new Map();
  const tools = Object.fromEntries(
    taskTools.map(({ name, description, parameters, execute }) => [
      name,
      tool({ description, inputSchema: jsonSchema(parameters), execute }),
    ]),
  );
  return async ({ steps, prompt }, baseURL) => {
    const provider =
      providers.get(baseURL) ??
      createOpenAICompatible({ name: 'bench', apiKey: 'none', baseURL, includeUsage: true });
    providers.set(baseURL, provider);
    const result = streamText({
      model: provider.chatModel(model),
      instructions,
      prompt,
      tools,
      stopWhen: isStepCount(steps + 1),
    });
    let text = '';
    let toolCalls = 0;
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') text += part.text;
      if (part.type === 'tool-result') toolCalls += 1;
      if (part.type === 'error') throw part.error;
    }
    return { text, toolCalls };
  };
}
