import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from '@openai/agents';
import { OpenAI } from 'openai';

setTracingDisabled(true);

/** OpenAI Agents over chat completions, tracing off, its events read. */
export function create(taskTools, { model, instructions }) {
  const agents = new Map();
  const tools = taskTools.map(({ name, description, parameters, execute }) =>
    tool({ name, description, parameters, strict: false, execute }),
  );
  const agentAt = (baseURL) => {
    const client = new OpenAI({ baseURL, apiKey: 'none' });
    return new Agent({
      name: 'bench',
      instructions,
      tools,
      model: new OpenAIChatCompletionsModel(client, model),
    });
  };
  return async ({ steps, prompt }, baseURL) => {
    const agent = agents.get(baseURL) ?? agentAt(baseURL);
    agents.set(baseURL, agent);
    const result = await run(agent, prompt, { stream: true, maxTurns: steps + 1 });
    let text = '';
    let toolCalls = 0;
    for await (const event of result) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta')
        text += event.data.delta;
      if (event.type === 'run_item_stream_event' && event.name === 'tool_output') toolCalls += 1;
    }
    return { text, toolCalls };
  };
}
