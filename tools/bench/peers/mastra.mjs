import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { z } from 'zod';

/** Mastra's agent over chat completions, its whole stream read. */
export function create(taskTools, { model, instructions }) {
  const agents = new Map();
  const tools = Object.fromEntries(
    taskTools.map(({ name, description, parameters, execute }) => [
      name,
      createTool({
        id: name,
        description,
        inputSchema: z.fromJSONSchema(parameters),
        execute: async (args) => execute(args),
      }),
    ]),
  );
  const agentAt = (url) =>
    new Agent({
      id: 'bench',
      name: 'bench',
      instructions,
      tools,
      model: { providerId: 'bench', modelId: model, url, apiKey: 'none' },
    });
  return async ({ steps, prompt }, baseURL) => {
    const agent = agents.get(baseURL) ?? agentAt(baseURL);
    agents.set(baseURL, agent);
    const { fullStream } = await agent.stream(prompt, { maxSteps: steps + 1 });
    let text = '';
    let toolCalls = 0;
    for await (const { type, payload } of fullStream) {
      if (type === 'text-delta') text += payload.text;
      if (type === 'tool-result') toolCalls += 1;
      if (type === 'error') throw payload.error;
    }
    return { text, toolCalls };
  };
}
