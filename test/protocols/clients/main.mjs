// Drives the clients of others against applications, given as NAME=ADDRESS, and prints what each of
// them understood.
import { agUiPlays } from './ag-ui.mjs';
import { assistantUiPlays } from './assistant-ui.mjs';
import { connect } from './shared.mjs';
import { useChatPlays } from './use-chat.mjs';

const told = {};
for (const [name, address] of process.argv.slice(2).map((named) => named.split('='))) {
  connect(address, name);
  told[name] = {
    useChat: await useChatPlays(),
    agUi: await agUiPlays(),
    ...(await assistantUiPlays()),
  };
}
process.stdout.write(JSON.stringify(told), () => process.exit());
