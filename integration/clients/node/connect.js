'use strict';
// Try to connect and show what amqplib says about it.

const amqplib = require('amqplib');

amqplib.connect(process.argv[2]).then(
  (connection) => {
    console.log('connected');
    return connection.close();
  },
  (error) => console.log(`${error.name}: ${error.message}`),
);
