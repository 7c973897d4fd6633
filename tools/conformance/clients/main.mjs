// Visits the demo with a client of others, in each revision that it speaks, and prints a line for
// each: node main.mjs CLIENT URL
const [name, url] = process.argv.slice(2);
const request = {
  url,
  headers: { authorization: 'Bearer demo-alice' },
  tool: 'orders__findOrder',
  args: { orderId: 'o-1024' },
};
const { visit, eras } = await import(`./${name}.mjs`);

for (const era of eras) {
  try {
    const { tools, content } = await visit({ ...request, era });
    const isRight =
      tools.includes(request.tool) && JSON.stringify(content).includes(request.args.orderId);
    console.log(isRight ? `✓ ${era}` : `✗ ${era}\n${JSON.stringify({ tools, content })}`);
  } catch (error) {
    console.log(`✗ ${era}\n${error.stack}`);
  }
}
