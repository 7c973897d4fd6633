import { OpenAI } from 'openai';
import type {
  ChatCompletionChunk,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from 'openai/resources/chat/completions';
import {
  INSTRUCTIONS,
  MODEL,
  type NumberedTask,
  type Outcome,
  promptOf,
  type TaskTool,
} from '../task.js';
import type { Driver } from './driver.js';
import { argumentsFrom } from './from-arguments.js';

/** The `openai` SDK's stream, and a loop around it written by hand. */
export function openAiSdkDriver(tools: readonly TaskTool[]): Driver {
  const clients = new Map<string, OpenAI>();
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const declared = tools.map((tool): ChatCompletionTool => {
    const { name, description, parameters } = tool;
    return { type: 'function', function: { name, description, parameters: { ...parameters } } };
  });
  const run = async (task: NumberedTask, baseURL: string): Promise<Outcome> => {
    const client = clients.get(baseURL) ?? new OpenAI({ baseURL, apiKey: 'none' });
    clients.set(baseURL, client);
    const messages: ChatCompletionMessageParam[] = [
      { role: 'system', content: INSTRUCTIONS },
      { role: 'user', content: promptOf(task) },
    ];
    for (let toolCalls = 0; ; toolCalls += 1) {
      const answer = await ask(client, messages, declared);
      if (answer.name === '') return { text: answer.text, toolCalls };
      const result = byName.get(answer.name)?.execute(argumentsFrom(answer.arguments));
      const call = {
        id: answer.id,
        type: 'function',
        function: { name: answer.name, arguments: answer.arguments },
      } as const;
      messages.push({ role: 'assistant', content: null, tool_calls: [call] });
      messages.push({ role: 'tool', tool_call_id: answer.id, content: JSON.stringify(result) });
    }
  };
  return { name: 'openai SDK, hand-written loop', speed: 1, run, close: () => undefined };
}

interface Answer {
  text: string;
  id: string;
  name: string;
  arguments: string;
}

async function ask(
  client: OpenAI,
  messages: ChatCompletionMessageParam[],
  tools: ChatCompletionTool[],
): Promise<Answer> {
  const answer = { text: '', id: '', name: '', arguments: '' };
  const options = { stream: true, stream_options: { include_usage: true } } as const;
  const stream = await client.chat.completions.create({
    model: MODEL,
    ...options,
    tools,
    messages,
  });
  for await (const { choices } of stream) {
    const delta = choices[0]?.delta;
    if (delta?.content) answer.text += delta.content;
    if (delta?.tool_calls?.[0]) takeCall(answer, delta.tool_calls[0]);
  }
  return answer;
}

function takeCall(answer: Answer, call: ChatCompletionChunk.Choice.Delta.ToolCall): void {
  answer.id ||= call.id ?? '';
  answer.name ||= call.function?.name ?? '';
  answer.arguments += call.function?.arguments ?? '';
}
