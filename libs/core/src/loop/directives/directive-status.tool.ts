import type { JSONSchema7 } from 'json-schema';
import type { RunContext } from '../../protocol/tool-call-context.js';
import { ToolError } from '../../protocol/tool-error.js';
import type { Tool, ToolSpec } from '../../protocol/tool.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';
import { compileReveal } from '../../schema/revealed.projection.js';
import { compileSchemaInput } from '../../schema/tool.input.js';
import { DirectiveError } from './directive.error.js';
import type { DirectiveView } from './directive.view.js';

const STATUS_ID = 'directives__status';

const description =
  'Says what became of something that was requested and is performed later, by the directive_id that the request answered. Nothing is performed by asking.';

const inputSchema: JSONSchema7 = {
  type: 'object',
  properties: {
    directive_id: { type: 'string', minLength: 1, maxLength: 64, description: 'As the request answered it, such as dir_0a1b.' },
  },
  required: ['directive_id'],
  additionalProperties: false,
};

/** A subject and a failure may repeat what a stranger said. */
const spec: ToolSpec = Object.freeze<ToolSpec>({
  id: STATUS_ID,
  declaredId: STATUS_ID,
  description,
  inputSchema,
  effect: 'read_only',
  labels: { returns: 'untrusted', reads: 'private', egress: false },
  redaction: { kind: 'reveal', fields: 'all' },
  schemaHash: sha256(canonicalDeclaration({ description, inputSchema })),
});

const { input } = compileSchemaInput({ at: STATUS_ID, reserved: [], schema: inputSchema });

/** The tool by which a model learns what became of a directive that the actor may see, in the actor's own tenant. */
export function directiveStatusTool(get: (directiveId: string, who: Pick<RunContext, 'actor' | 'tenant'>) => Promise<DirectiveView>): Tool {
  return {
    spec,
    origin: { source: 'toolloop', trusted: true },
    input,
    output: compileReveal('all'),
    invoke: async (args, { actor, tenant }) => {
      try {
        return statusOf(await get(idIn(args), { actor, tenant }));
      } catch (error) {
        if (error instanceof DirectiveError) throw new ToolError(error.message, { cause: error });
        throw error;
      }
    },
  };
}

/** What the effect returned is left out: it is kept as the ui may see it, not as the model may. */
function statusOf({ directiveId, type, subject, task, status, attempts, failure }: DirectiveView): object {
  return { directive_id: directiveId, type, subject, task, status, attempts, ...(failure && { failure: failure.safeMessage }) };
}

function idIn(args: unknown): string {
  const id: unknown = typeof args === 'object' && args !== null ? Reflect.get(args, 'directive_id') : undefined;
  return typeof id === 'string' ? id : '';
}
