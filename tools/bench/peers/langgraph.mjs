import { tool } from '@langchain/core/tools';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { read } from './langchain.mjs';

/** A graph of LangGraph with a node for the model and one for the tools, its messages streamed. */
export function create(taskTools, { model, instructions }) {
  const graphs = new Map();
  const tools = taskTools.map(({ name, description, parameters, execute }) =>
    tool((args) => JSON.stringify(execute(args)), { name, description, schema: parameters }),
  );
  const graphAt = (baseURL) => {
    const bound = new ChatOpenAI({
      model,
      apiKey: 'none',
      streaming: true,
      configuration: { baseURL },
    }).bindTools(tools);
    const ask = async ({ messages }) => ({
      messages: [await bound.invoke([{ role: 'system', content: instructions }, ...messages])],
    });
    return new StateGraph(MessagesAnnotation)
      .addNode('model', ask)
      .addNode('tools', new ToolNode(tools))
      .addEdge(START, 'model')
      .addConditionalEdges('model', toolsCondition, ['tools', END])
      .addEdge('tools', 'model')
      .compile();
  };
  return async ({ steps, prompt }, baseURL) => {
    const graph = graphs.get(baseURL) ?? graphAt(baseURL);
    graphs.set(baseURL, graph);
    return read(
      await graph.stream(
        { messages: [{ role: 'user', content: prompt }] },
        { streamMode: 'messages', recursionLimit: 3 * steps + 10 },
      ),
    );
  };
}
