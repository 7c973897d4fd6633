import type { Tool, ToolOrigin } from '../protocol/tool.js';
import type { ToolTarget } from './tool.hooks.js';
import type { ToolTemplate } from './tool.template.js';

/** Tools of the application's own classes. */
const DISCOVERED: ToolOrigin = { source: 'discovery', trusted: true };

/** The tool that a template makes, called on what is found for the run. */
export function boundTool(template: ToolTemplate, target: ToolTarget): Tool {
  const { call, hooks, returns: _returns, directive, ...shared } = template;
  const { canCall, preview, compensate } = hooks;
  return {
    ...shared,
    origin: DISCOVERED,
    ...(canCall && { canCall: (run) => canCall(target, run) }),
    ...(preview && { preview: (input, context) => preview(target, input, context) }),
    ...(directive && {
      directive: {
        ...directive,
        ...(compensate && { compensate: (input, performed, context) => compensate(target, input, performed, context) }),
      },
    }),
    invoke: (input, context) => {
      const found = target(context);
      return found instanceof Promise ? found.then((instance) => call(instance, input, context)) : call(found, input, context);
    },
  };
}
