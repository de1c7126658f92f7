"""What is looked at while servers run: Grafana's dashboard, made of reviewed questions."""
