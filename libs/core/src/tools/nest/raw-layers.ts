import type { RawTool } from '../decorators/raw-tool.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import { hostClassOf, hostOf, recordTypes } from './enhancers.js';
import { type LayeredMethod } from './layered-method.js';
import { isClass } from './provider-classes.js';

/**
 * Makes the class in which Nest finds the guards, pipes, interceptors and filters of a raw tool: it
 * has those of the tool's class. A function has none of its own, and its class, which bears the id
 * of the tool, stands for it in an `ExecutionContext`.
 */
export function rawMethodOf({
  type: own,
  source,
  declaration: { id = '', input, interceptors },
}: RawTool): LayeredMethod {
  const type = own
    ? hostClassOf(own, [CALL])
    : hostOf(id, { [CALL]: source && Reflect.get(source, 'execute') });
  const parameters =
    input === undefined ? [] : [{ kind: 'input', index: 0, type: undefined } as const];
  const method: ToolMethod = { property: CALL, options: undefined, parameters, designTypes: [] };
  recordTypes(type, method.property, [isClass(input) ? input : Object]);
  return { type, method, except: interceptors?.except };
}

/** The method of a raw tool's class. */
const CALL = 'call';

/** The same for a tool that a source declares, which is known by its id alone. */
export function contributedMethodOf(
  declaredId: string,
  except?: readonly unknown[],
): LayeredMethod {
  const type = hostOf(declaredId, { [CALL]: undefined });
  const method: ToolMethod = {
    property: CALL,
    options: undefined,
    parameters: [{ kind: 'input', index: 0, type: undefined }],
    designTypes: [],
  };
  recordTypes(type, CALL, [Object]);
  return { type, method, except };
}
