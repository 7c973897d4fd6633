import { ChatOpenAI } from '@langchain/openai';
import { createAgent, tool } from 'langchain';

/** LangChain's agent over chat completions, its messages streamed. */
export function create(taskTools, { model, instructions }) {
  const agents = new Map();
  const tools = taskTools.map(({ name, description, parameters, execute }) =>
    tool((args) => JSON.stringify(execute(args)), { name, description, schema: parameters }),
  );
  const agentAt = (baseURL) =>
    createAgent({
      model: new ChatOpenAI({ model, apiKey: 'none', streaming: true, configuration: { baseURL } }),
      tools,
      systemPrompt: instructions,
    });
  return async ({ steps, prompt }, baseURL) => {
    const agent = agents.get(baseURL) ?? agentAt(baseURL);
    agents.set(baseURL, agent);
    return read(
      await agent.stream(
        { messages: [{ role: 'user', content: prompt }] },
        { streamMode: 'messages', recursionLimit: 3 * steps + 10 },
      ),
    );
  };
}

/** Reads the stream of messages of a graph. */
export async function read(stream) {
  let text = '';
  let toolCalls = 0;
  for await (const [message] of stream) {
    if (message.getType() === 'tool') toolCalls += 1;
    else text += message.text;
  }
  return { text, toolCalls };
}
